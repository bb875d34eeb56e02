import type { Executor } from '../../kernel/model/index.js'

/** The end of one attempt, behind the fence of its message. */
export interface FinishWrite {
  readonly messageId: string
  readonly attempt: number
  readonly commandId: string
  readonly token: string
  readonly end: AttemptEnd
}

export type AttemptEnd =
  | { readonly outcome: 'COMPLETED'; readonly json: string; readonly notes: object | null }
  | (FailedEnd & { readonly outcome: 'RETRY'; readonly delayMs: number })
  | (FailedEnd & { readonly outcome: 'FAILED' | 'TSQ' })

interface FailedEnd {
  readonly failure: FailureRow
  /** How the outcome of a call that must not be repeated can be found out; null if it is known. */
  readonly inquiry: 'possible' | 'impossible' | null
  /** What this attempt says of the command's effect; undefined: nothing new. */
  readonly effect: 'unknown' | 'none' | undefined
}

interface FailureRow {
  readonly kind: string
  readonly code: string
  readonly message: string
  readonly fingerprint: string
  readonly stack?: string | undefined
}

export type FinishAnswer = 'done' | 'lost' | 'held'

const ANSWERS: readonly FinishAnswer[] = ['done', 'lost', 'held']

export async function finishCommands(
  executor: Executor,
  queue: string,
  domain: string,
  writes: readonly FinishWrite[],
): Promise<FinishAnswer[]> {
  const [row] = await executor.run<{ answers: number[] }>(statement, [
    queue,
    domain,
    `[${writes.map(toJson).join(',')}]`,
  ])
  return (row?.answers ?? []).map((answer) => ANSWERS[answer] ?? 'lost')
}

function toJson({ messageId, attempt, commandId, token, end }: FinishWrite): string {
  // Written by hand, because there is one for every command: ids and numbers need no escaping.
  const head = `{"msg_id":${messageId},"read_ct":${attempt},"command_id":"${commandId}","token":"${token}"`
  if (end.outcome === 'COMPLETED') {
    const notes = end.notes === null ? '' : `,"result_notes":${JSON.stringify(end.notes)}`
    return `${head},"outcome":"COMPLETED"${notes},"result":${end.json}}`
  }
  const { kind, code, message, fingerprint, stack } = end.failure
  const error = { error_kind: kind, error_code: code, error_message: message, error_stack: stack, fingerprint }
  const delay = end.outcome === 'RETRY' ? { delay_ms: end.delayMs } : {}
  const inquiry = end.inquiry === null ? {} : { inquiry: end.inquiry }
  const { outcome, effect } = end
  return `${head},${JSON.stringify({ outcome, effect, ...error, ...delay, ...inquiry }).slice(1)}`
}

const statement = {
  name: 'commands.finish',
  text: 'select holdfast.finish_commands($1, $2, $3::text::jsonb) as answers',
}
