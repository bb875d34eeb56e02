import type { Codec, Encoded } from '../kernel/codec/codec.js'
import type { Executor, Logger } from '../kernel/model/index.js'
import type { DefinedProcess } from './define.js'
import { settled } from './execution/from-user-code.js'
import type { RecordedResponse } from './history.js'
import { applyLateResponse } from './queries/apply-late-response.js'
import type { ResponseAnswer, ResponseWrite } from './queries/respond-processes.js'

/**
 * A response to a process that has ended changes what readers see of its state, and nothing else. False when
 * another response came between: then it is to be tried again on what that one left.
 */
export async function applyLate(
  db: Executor,
  { codec, logger }: { readonly codec: Codec; readonly logger: Logger },
  definition: DefinedProcess | undefined,
  write: ResponseWrite,
  late: Extract<ResponseAnswer, { kind: 'late' }>,
): Promise<boolean> {
  const coming: RecordedResponse = { number: late.after + 1, ...write, data: JSON.parse(write.json) }
  const before = { json: late.projection, notes: late.projectionNotes }
  return applyLateResponse(db, write, late.after, patched([...late.missed, coming]))

  function patched(responses: readonly RecordedResponse[]): Encoded {
    try {
      const state = codec.decode(before)
      for (const { name, data, notes } of responses) {
        const apply = definition?.responses.get(name)?.apply
        settled(apply?.(state, codec.decode({ json: data, notes })), `the reducer of the response \`${name}\``)
      }
      return codec.encode(state, { at: 'state' })
    } catch (error) {
      // It is on record all the same; what readers see stays as it was.
      logger.warn(
        { err: error, id: write.id, response: write.name },
        'a late response could not be applied to the state',
      )
      return { json: JSON.stringify(before.json), notes: before.notes }
    }
  }
}
