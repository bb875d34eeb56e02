import type { Encoded } from '../../kernel/codec/codec.js'
import { HoldfastError } from '../../kernel/errors.js'
import type { Executor, LeaseRef } from '../../kernel/model/index.js'

/** Keeps a parsed state behind the fence, and a deadline where there was none; returns the deadline. */
export async function storeCheckedState(
  executor: Executor,
  { id, epoch }: LeaseRef,
  { json, notes }: Encoded,
  deadline: { readonly deadline_ms?: number; readonly deadline_in_ms?: number },
): Promise<number | null> {
  const [row] = await executor.run<{ deadline_ms: number | null }>(statement, [
    id,
    epoch,
    json,
    notes === null ? null : JSON.stringify(notes),
    deadline.deadline_ms ?? null,
    deadline.deadline_in_ms ?? null,
  ])
  if (!row) throw new HoldfastError('HF_LEASE_LOST', { id, epoch: String(epoch) })
  return row.deadline_ms
}

const statement = {
  name: 'processes.store-checked-state',
  text: 'select deadline_ms from holdfast.store_checked_state($1, $2, $3::jsonb, $4::jsonb, $5, $6)',
}
