import type { Executor } from '../../kernel/database/executor.js'

/** A definition that a worker has, with what it is claimed by. */
export interface NotedDefinition {
  readonly type: string
  readonly version: number
  readonly leaseMs: number
  readonly limit: number | null
}

/** Starts through SQL take the newest version that was noted; lists know from it what can be leased. */
export async function noteDefinitions(executor: Executor, definitions: readonly NotedDefinition[]): Promise<void> {
  const rows = definitions.map(({ type, version, leaseMs, limit }) => ({ type, version, lease_ms: leaseMs, limit }))
  await executor.run(statement, [JSON.stringify(rows)])
}

const statement = { name: 'processes.note-definitions', text: 'select holdfast.note_definitions($1::text::jsonb)' }
