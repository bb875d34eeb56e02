import type { FaultShares } from '@holdfast/testing'

/** How often the simulated bank goes wrong, in per cent of its calls. */
export const FAULTS: FaultShares = {
  refused: 4,
  unreachable: 4,
  lostAnswer: 6,
  hangs: 2,
  hangsBefore: 1,
  late: 2,
  slow: 15,
}
