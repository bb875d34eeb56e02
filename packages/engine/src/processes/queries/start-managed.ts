import type { Executor, Statement } from '../../kernel/database/executor.js'
import { type SealedStart, type StartAnswer, startProcesses } from './start-processes.js'

/** Starts step-based processes with their first commands; only inserts, so any executor will do. */
export function startManaged(executor: Executor, starts: readonly SealedStart[]): Promise<StartAnswer[]> {
  return startProcesses(executor, starts, startStatement)
}

/** The same for the group commit, which waits for no other transaction. */
export function flushManagedStarts(executor: Executor, starts: readonly SealedStart[]): Promise<StartAnswer[]> {
  return startProcesses(executor, starts, flushStatement)
}

const startStatement: Statement = {
  name: 'processes.start-managed',
  text: 'select holdfast.start_managed($1::text::jsonb) as answers',
}
const flushStatement: Statement = {
  name: 'processes.flush-managed-starts',
  text: 'select holdfast.flush_managed_starts($1::text::jsonb) as answers',
}
