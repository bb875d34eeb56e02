import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/model/index.js'

export interface PostedResponse {
  /** The id of its row in the inbox: a repeated insert with the same id changes nothing. */
  readonly inboxId: string
  readonly type: string
  /** The id or key of the process. */
  readonly reference: string
  readonly name: string
  readonly responseId: string
  readonly json: string
  readonly notes: Notes | null
  readonly checked: boolean
}

/** Only inserts, so it works with any executor. */
export async function postResponses(executor: Executor, responses: readonly PostedResponse[]): Promise<void> {
  await executor.run(statement, [`[${responses.map(toJson).join(',')}]`])
}

function toJson({ inboxId, type, reference, name, responseId, json, notes, checked }: PostedResponse): string {
  const row = { inbox_id: inboxId, type, process_ref: reference, name, response_id: responseId, notes, checked }
  return `${JSON.stringify(row).slice(0, -1)},"data":${json}}`
}

const statement = { name: 'processes.post-responses', text: 'select holdfast.post_responses($1::text::jsonb)' }
