export const BATCH_STATUSES = ['PENDING', 'IN_PROGRESS', 'COMPLETED', 'COMPLETED_WITH_FAILURES'] as const

export type BatchStatus = (typeof BATCH_STATUSES)[number]

/** A batch of commands as it is now. */
export interface Batch {
  readonly batchId: string
  readonly domain: string
  readonly name: string | null
  readonly data: unknown
  readonly status: BatchStatus
  readonly sealed: boolean
  readonly createdAt: Date
  readonly startedAt: Date | null
  readonly completedAt: Date | null
  readonly total: number
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  readonly inTroubleshooting: number
}
