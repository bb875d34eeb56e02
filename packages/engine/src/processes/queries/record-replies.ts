import type { Executor } from '../../kernel/model/index.js'
import {
  type ResponseAnswer,
  type ResponseRowAnswer,
  type ResponseWrite,
  responseToJson,
  toResponseAnswer,
} from './respond-processes.js'

/** A message to remove, and the response that it becomes, if any. */
export interface ReplyWrite {
  readonly messageId: string
  readonly response?: ResponseWrite
}

export async function recordReplies(
  executor: Executor,
  queue: string,
  writes: readonly ReplyWrite[],
): Promise<ResponseAnswer[]> {
  const [row] = await executor.run<{ answers: ResponseRowAnswer[] }>(statement, [
    queue,
    `[${writes.map(toJson).join(',')}]`,
  ])
  return (row?.answers ?? []).map(toResponseAnswer)
}

function toJson({ messageId, response }: ReplyWrite): string {
  const head = `{"msg_id":${messageId}`
  return response ? `${head},${responseToJson(response).slice(1)}` : `${head}}`
}

const statement = {
  name: 'processes.record-replies',
  text: 'select holdfast.record_replies($1, $2::text::jsonb) as answers',
}
