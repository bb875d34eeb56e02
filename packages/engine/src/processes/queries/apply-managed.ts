import type { Envelope } from '../../commands/index.js'
import { type Executor, toWriteAnswer, type WriteAnswer } from '../../kernel/model/index.js'
import { callId } from '../history.js'
import type { Decision } from '../managers/decide.js'
import type { ManagedProcess } from './read-managed.js'

/** A decision on one process, behind the fence of what it was made on. */
export interface ManagedWrite {
  readonly managed: ManagedProcess
  readonly token: string
  readonly messages: readonly { readonly messageId: string; readonly readCount: number }[]
  readonly decision: Decision
  /** Write although nothing has changed: the process was due and needs its next due time. */
  readonly rests: boolean
  readonly envelope: Envelope | undefined
}

export async function applyManaged(
  executor: Executor,
  queue: string,
  writes: readonly ManagedWrite[],
): Promise<WriteAnswer[]> {
  const [row] = await executor.run<{ answers: number[] }>(statement, [queue, `[${writes.map(toJson).join(',')}]`])
  return (row?.answers ?? []).map(toWriteAnswer)
}

function toJson({ managed, token, messages, decision, rests, envelope }: ManagedWrite): string {
  const { events, keep, state, seen, suspension, late } = decision
  const row = {
    id: managed.id,
    epoch: managed.epoch,
    from_status: managed.status,
    cancel: managed.cancel,
    heard: managed.responses,
    generation: managed.generation,
    token,
    messages: messages.map(({ messageId, readCount }) => ({ msg_id: messageId, read_ct: readCount })),
    events,
    keep: keep.map(({ number, responseId, reply }) => ({ number, response_id: responseId, data: reply })),
    seen,
    has_projection: state !== undefined,
    projection_notes: state?.notes,
    ...(rests ? restOf(suspension) : {}),
    ...(late.length === 0
      ? {}
      : { late: true, late_detail: { replies: late.map(({ commandId, outcome }) => ({ commandId, outcome })) } }),
  }
  const projection = state ? `,"projection":${state.json}` : ''
  return `${JSON.stringify(row).slice(0, -1)}${projection}${sendToJson(envelope)}}`
}

function restOf({ status, ended, error, waitingFor, dueAt, timeoutAt }: Decision['suspension']) {
  return {
    to_status: status,
    ended,
    error,
    due_ms: dueAt,
    wait_timeout_ms: timeoutAt,
    // One that has not begun waits for no step.
    ...(ended || waitingFor.step === '' ? {} : { waiting_for: callId(waitingFor.step, waitingFor.occurrence) }),
  }
}

/** The command is JSON already. */
export function sendToJson(envelope: Envelope | undefined): string {
  if (!envelope) return ''
  const { queue, domain, json } = envelope
  return `,"send":${JSON.stringify({ queue, domain }).slice(0, -1)},"command":${json}}`
}

const statement = {
  name: 'processes.apply-managed',
  text: 'select holdfast.apply_managed($1, $2::text::jsonb) as answers',
}
