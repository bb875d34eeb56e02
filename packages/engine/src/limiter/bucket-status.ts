/** How full a bucket is at this moment. */
export interface BucketStatus {
  /** Slots that are free now. */
  readonly available: number
  /** Reserved slots whose time has not come. */
  readonly reservedAhead: number
  /** Milliseconds until the next slot that is not reserved. */
  readonly nextSlotMs: number
}

/** Slots and milliseconds are shown as whole numbers; a smaller difference than this is rounding. */
const NOISE = 1e-6

/** The status of a bucket that is full in this many milliseconds. */
export function bucketStatus(
  { ticketsPerSecond, burst }: { readonly ticketsPerSecond: number; readonly burst: number },
  leadMs: number,
): BucketStatus {
  const stepMs = 1000 / ticketsPerSecond
  const free = burst - leadMs / stepMs
  return {
    available: Math.max(0, Math.floor(free + NOISE)),
    reservedAhead: Math.max(0, Math.ceil(-free - NOISE)),
    nextSlotMs: Math.max(0, Math.ceil(leadMs - (burst - 1) * stepMs - NOISE)),
  }
}
