import type { ErrorCode } from '../errors.js'
import type { Model } from './handle.js'

/** What became of one of many: a list of these is what every call on many pieces of work returns. */
export interface BulkResult {
  readonly model: Model
  readonly id: string
  readonly outcome: 'done' | 'refused'
  /** Why it was refused. */
  readonly code?: ErrorCode
  readonly message?: string
}
