import type { Executor, Statement } from '../../kernel/model/index.js'
import type { ProcessStatus } from '../states.js'

/** A process on its way to `holdfast.start_processes`, as JSON. */
export interface EncodedStart {
  readonly id: string
  readonly key: string | undefined
  readonly json: string
}

export interface StartAnswer {
  readonly id: string
  /** Whether it was created by this call; otherwise its id or key existed already. */
  readonly created: boolean
  readonly status: Exclude<ProcessStatus, 'EXECUTING'> | 'batch closed' | 'other type'
  /** Milliseconds of the database's clock. */
  readonly now: number
  readonly deadline: number | null
  /** Whether the caller of `start` executes it; not if it is paused. */
  readonly lent: boolean
}

type Row = readonly [
  id: string,
  created: boolean,
  status: StartAnswer['status'],
  now: number,
  deadline: number | null,
  lent: boolean,
]

/** Only inserts, so it works with any executor. */
export async function startProcesses(
  executor: Executor,
  starts: readonly EncodedStart[],
  statement: Statement = startStatement,
): Promise<StartAnswer[]> {
  const [row] = await executor.run<{ answers: Row[] | null }>(statement, [
    `[${starts.map(({ json }) => json).join(',')}]`,
  ])
  return (row?.answers ?? []).map((answer) => {
    const [id, created, status, now, deadline, lent] = answer
    return { id, created, status, now, deadline, lent }
  })
}

const startStatement = {
  name: 'processes.start',
  text: 'select holdfast.start_processes($1::text::jsonb) as answers',
}

/** For the group commit, which waits for no open transaction of another caller. */
export const flushStartsStatement = {
  name: 'processes.flush-starts',
  text: 'select holdfast.flush_starts($1::text::jsonb) as answers',
}
/** Step-based processes, with their first commands. */
export const startManagedStatement = {
  name: 'processes.start-managed',
  text: 'select holdfast.start_managed($1::text::jsonb) as answers',
}
export const flushManagedStatement = {
  name: 'processes.flush-managed-starts',
  text: 'select holdfast.flush_managed_starts($1::text::jsonb) as answers',
}
