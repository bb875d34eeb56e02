import type { Sql } from '../kit/sql.js'
import type { Effects } from './effects.js'
import { describeFinding, type EffectEnd, effectFindings } from './law.js'

/** The status of an execution of any model. */
export interface Standing {
  readonly status: string
  readonly code: string | null
}

/** The executions of these ids, by id; processes, workflow instances and commands. */
export async function standingsOf(sql: Sql, ids: readonly string[]): Promise<ReadonlyMap<string, Standing>> {
  const rows = await sql<{ id: string; status: string; code: string | null }>(standingText, [ids])
  return new Map(rows.map(({ id, status, code }) => [id, { status, code }]))
}

const ENDS: Readonly<Record<string, EffectEnd>> = {
  COMPLETED: 'kept',
  COMPENSATED: 'undone',
  CANCELLED: 'undone',
  FAILED: 'undone',
}

export interface ExpectEffectsOptions {
  /** For executions or calls whose status does not decide it: an aborted workflow, steps before a save point. */
  readonly endOf?: (execution: string, name: string, standing: Standing | undefined) => EffectEnd | undefined
}

/**
 * Checks that every effect is either kept by an execution that completed, or undone exactly once, that nothing
 * happened after its undo, and that no call which must not be repeated was repeated blindly.
 *
 * @example
 * await crashTest({ …, invariant: ({ sql, world }) => expectEveryEffectKeptOrUndone(world.bank, sql) })
 */
export async function expectEveryEffectKeptOrUndone(
  effects: Pick<Effects, 'events'>,
  sql: Sql,
  { endOf }: ExpectEffectsOptions = {},
): Promise<void> {
  const events = await effects.events()
  const standings = await standingsOf(sql, [...new Set(events.map(({ execution }) => execution))])
  const findings = effectFindings(events, (execution, name) => {
    const standing = standings.get(execution)
    return endOf?.(execution, name, standing) ?? ENDS[standing?.status ?? ''] ?? 'open'
  })
  if (findings.length === 0) return
  const lines = findings.map((finding) => {
    const { status = 'unknown', code = null } = standings.get(finding.execution) ?? {}
    return `  ${describeFinding(finding)}; the execution is ${status}${code === null ? '' : ` (${code})`}`
  })
  throw new Error(`not every effect is either kept or undone exactly once\n${lines.join('\n')}`)
}

const standingText = `
  select process.id::text, process.status, error_code as code
  from holdfast.process
  join holdfast.process_detail using (id)
  where process.id = any ($1::uuid[])
  union all
  select id::text, status, failure ->> 'code' from holdfast.workflow where id = any ($1::uuid[])
  union all
  select command_id::text, status, error_code from holdfast.command where command_id = any ($1::uuid[])`
