import { HoldfastError } from '../../kernel/errors.js'
import type { Execution } from './execution.js'

/** Ends an execution whose lease is lost, or whose writes the database refuses: it changes nothing any more. */
export function throwIfLost({ lost, lease }: Execution): void {
  if (lost) throw lost
  if (lease.aborted) throw new HoldfastError('HF_LEASE_LOST', { id: lease.item.id, epoch: String(lease.item.epoch) })
}
