import { type DispatchStatus, type Holdfast, HoldfastError } from 'holdfast'
import type { PaymentWindow } from '../models/payment-window.js'

/** The status of a scheduled payment between its two phases. */
export interface Release {
  /** `READY` until it is released, then `DISPATCHED`; `COMPLETED` or `FAILED` when its process has ended. */
  readonly status: DispatchStatus
  readonly dispatchedAt: Date | null
  readonly completedAt: Date | null
  readonly retryCount: number
  readonly lastError: string | null
}

/** Null if it is not known any more: ended items are kept for a while only. */
export async function releaseOf(hf: Holdfast, window: PaymentWindow, paymentId: string): Promise<Release | null> {
  try {
    const { status, dispatchedAt, completedAt, retryCount, lastError } = await hf.item(window, paymentId).get()
    return { status, dispatchedAt, completedAt, retryCount, lastError }
  } catch (error) {
    if (error instanceof HoldfastError && error.code === 'HF_NOT_FOUND') return null
    throw error
  }
}

/** What a scheduled payment that has not begun waits for, as text. */
export function awaitsRelease(release: Pick<Release, 'status'> | null, executeAt: Date | null, now: Date): string {
  const status = release?.status
  if (status === 'DISPATCHED' || status === 'CLAIMED') return 'a worker'
  if (status === 'DEAD_LETTER') return 'an operator: it could not be started'
  return executeAt && executeAt > now ? 'its time' : 'its release'
}
