import { HoldfastError } from '../../kernel/errors.js'
import type { ClaimedProcess } from '../queries/claim-processes.js'
import type { Execution } from './execution.js'

/** Ends an execution whose lease is lost, or whose writes the database refuses: it changes nothing any more. */
export function throwIfLost({ lost, lease }: Execution): void {
  if (lost) throw lost
  if (lease.aborted) throw leaseLost(lease.item)
}

export function leaseLost({ id, epoch }: Pick<ClaimedProcess, 'id' | 'epoch'>): HoldfastError<'HF_LEASE_LOST'> {
  return new HoldfastError('HF_LEASE_LOST', { id, epoch: String(epoch) })
}

export function isLostLease(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === 'HF_LEASE_LOST'
}
