/** How full a bucket is at this moment. */
export interface Level {
  /** Slots that are free now. */
  readonly available: number
  /** Slots that are reserved and still to come. */
  readonly reservedAhead: number
  /** How long it is until the next slot that nobody has, in milliseconds. */
  readonly nextSlotMs: number
}

/** Slots and milliseconds are shown as whole numbers; what is closer to one than this is one. */
const NOISE = 1e-6

/** The level of a bucket that is full so many milliseconds from now. */
export function levelOf(
  { ticketsPerSecond, burst }: { readonly ticketsPerSecond: number; readonly burst: number },
  leadMs: number,
): Level {
  const stepMs = 1000 / ticketsPerSecond
  const level = burst - leadMs / stepMs
  return {
    available: Math.max(0, Math.floor(level + NOISE)),
    reservedAhead: Math.max(0, Math.ceil(-level - NOISE)),
    nextSlotMs: Math.max(0, Math.ceil(leadMs - (burst - 1) * stepMs - NOISE)),
  }
}
