import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/model/index.js'
import type { HumanChoice } from '../decide/instance-event.js'

/** A human step that waits for a decision. */
export interface WaitingDecision {
  readonly instanceId: string
  readonly domain: string
  readonly type: string
  readonly version: number
  readonly step: string
  /** The input of the step, to decide on. */
  readonly input: unknown
  readonly since: Date
}

/** What a person decided. */
export interface RecordedDecision {
  readonly step: string
  readonly decision: HumanChoice
  readonly actor: string
  readonly reason: string
  readonly at: Date
}

interface Row extends Omit<WaitingDecision, 'input'> {
  readonly input: unknown
  readonly notes: Notes | null
}

/** Those that wait longest first. */
export async function findWaitingDecisions(
  executor: Executor,
  codec: Codec,
  {
    domain,
    type,
    limit,
  }: { readonly domain?: string | undefined; readonly type?: string | undefined; readonly limit: number },
): Promise<WaitingDecision[]> {
  const rows = await executor.run<Row>(waitingStatement, [domain ?? null, type ?? null, limit])
  return rows.map(({ input, notes, ...row }) => ({ ...row, input: decodeOrRaw(codec, input, notes) }))
}

export async function findDecisions(executor: Executor, id: string): Promise<RecordedDecision[]> {
  return executor.run<RecordedDecision & object>(decisionsStatement, [id])
}

const waitingStatement = {
  name: 'workflows.waiting-decisions',
  text: `
    select workflow.id as "instanceId", pg_catalog.split_part(workflow.name, '/', 1) as domain,
      pg_catalog.split_part(workflow.name, '/', 2) as type, workflow.version, step.name as step, step.input,
      step.input_notes as notes, step.reached_at as since
    from holdfast.workflow_step as step
    join holdfast.workflow on workflow.id = step.workflow_id
    where step.status = 'WAITING_DECISION' 
      and ($1::text is null or pg_catalog.split_part(workflow.name, '/', 1) = $1)
      and ($2::text is null or pg_catalog.split_part(workflow.name, '/', 2) = $2)
    order by step.reached_at
    limit $3`,
}
const decisionsStatement = {
  name: 'workflows.decisions',
  text: `
    select step, decision, actor, reason, at
    from holdfast.workflow_decision
    where workflow_id = $1
    order by at`,
}
