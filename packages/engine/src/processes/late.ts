import type { Codec } from '../kernel/codec/codec.js'
import type { Executor } from '../kernel/database/executor.js'
import type { ProcessDefinition } from './define.js'
import { applyLateResponse } from './queries/apply-late-response.js'
import type { ResponseAnswer, ResponseWrite } from './queries/respond-processes.js'

/**
 * A response to a process that has ended changes what readers see of its state, and nothing else (P-11). False when
 * another response came between: then it is to be tried again on what that one left.
 */
export async function applyLate(
  db: Executor,
  codec: Codec,
  definition: ProcessDefinition | undefined,
  write: ResponseWrite,
  late: Extract<ResponseAnswer, { kind: 'late' }>,
): Promise<boolean> {
  const state = codec.decode({ json: late.projection, notes: late.projectionNotes })
  const coming = { name: write.name, data: JSON.parse(write.json) as unknown, notes: write.notes }
  for (const { name, data, notes } of [...late.missed, coming]) {
    definition?.responses.get(name)?.apply?.(state, codec.decode({ json: data, notes }))
  }
  return applyLateResponse(db, write, late.after, codec.encode(state, { at: 'state' }))
}
