import type { Executor } from '../../kernel/model/index.js'
import type { ResponseWrite } from './respond-processes.js'

export async function applyLateResponse(
  executor: Executor,
  { id, name, responseId, json, notes }: ResponseWrite,
  after: number,
  projection: { readonly json: string; readonly notes: object | null },
): Promise<boolean> {
  const [row] = await executor.run<{ applied: boolean }>(statement, [
    id,
    after,
    name,
    responseId,
    json,
    JSON.stringify(notes),
    projection.json,
    JSON.stringify(projection.notes),
  ])
  return row?.applied ?? false
}

const statement = {
  name: 'processes.apply-late-response',
  text: `
    select holdfast.apply_late_response($1, $2, $3, $4, $5::jsonb, nullif($6::jsonb, 'null'), $7::jsonb, nullif($8::jsonb, 'null'))
      as applied`,
}
