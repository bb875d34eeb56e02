import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/model/index.js'
import { type RecordedResponse, type ResponseRow, toResponse } from '../history.js'

/** A response to one process, checked and encoded. */
export interface ResponseWrite {
  readonly id: string
  readonly type: string
  readonly name: string
  readonly responseId: string
  readonly json: string
  readonly notes: Notes | null
  /** From a caller, not from the inbox: it must not overtake responses of that caller in the inbox. */
  readonly direct?: boolean
}

export type ResponseAnswer =
  | { readonly kind: 'done'; readonly number: number }
  | { readonly kind: 'held' | 'unknown' | 'behind' }
  | { readonly kind: 'other type'; readonly actual: string }
  | {
      readonly kind: 'late'
      /** The number of the last response: the fence of the projection. */
      readonly after: number
      readonly projection: unknown
      readonly projectionNotes: Notes | null
      /** Recorded, and not yet in the projection. */
      readonly missed: readonly RecordedResponse[]
    }

/** A result as the database returns it. */
export type ResponseRowAnswer =
  | readonly ['done', number]
  | readonly ['held' | 'unknown' | 'behind']
  | readonly ['other type', string]
  | readonly ['late', number, unknown, Notes | null, ResponseRow[] | null]

export async function respondProcesses(
  executor: Executor,
  responses: readonly ResponseWrite[],
): Promise<ResponseAnswer[]> {
  const [row] = await executor.run<{ answers: ResponseRowAnswer[] }>(statement, [
    `[${responses.map(responseToJson).join(',')}]`,
  ])
  return (row?.answers ?? []).map(toResponseAnswer)
}

export function toResponseAnswer(row: ResponseRowAnswer): ResponseAnswer {
  switch (row[0]) {
    case 'done':
      return { kind: 'done', number: row[1] }
    case 'other type':
      return { kind: 'other type', actual: row[1] }
    case 'late': {
      const [, after, projection, projectionNotes, missed] = row
      return { kind: 'late', after, projection, projectionNotes, missed: (missed ?? []).map(toResponse) }
    }
    default:
      return { kind: row[0] }
  }
}

export function responseToJson({ id, type, name, responseId, json, notes, direct }: ResponseWrite): string {
  return `${JSON.stringify({ id, type, name, response_id: responseId, notes, direct }).slice(0, -1)},"data":${json}}`
}

const statement = {
  name: 'processes.respond',
  text: 'select holdfast.respond_processes($1::text::jsonb) as answers',
}
