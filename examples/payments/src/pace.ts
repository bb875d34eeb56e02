import type { Duration } from 'holdfast'
import type { DispatchSettings } from 'holdfast/types'

/** How long a payment waits, and how often the services may be called. */
export interface Pace {
  readonly risk: ServicePace
  readonly fx: ServicePace
  readonly gateway: ServicePace
  /** How long any call of a service may take. */
  readonly serviceTimeout: Duration
  readonly approvalTimeout: Duration
  readonly confirmationTimeouts: {
    readonly L1: Duration
    readonly L2: Duration
    readonly L3: Duration
    readonly L4: Duration
  }
  /** The rate at which due scheduled payments are released. */
  readonly window: DispatchSettings
}

interface ServicePace {
  readonly maxAttempts: number
  readonly retryDelay: Duration
  readonly callsPerSecond: number
  readonly maxWait: Duration
}

/** Realistic values. */
export const asSpecified: Pace = {
  risk: { maxAttempts: 3, retryDelay: '5s', callsPerSecond: 10, maxWait: '10s' },
  fx: { maxAttempts: 2, retryDelay: '3s', callsPerSecond: 5, maxWait: '10s' },
  gateway: { maxAttempts: 1, retryDelay: '1s', callsPerSecond: 20, maxWait: '5s' },
  serviceTimeout: '30s',
  approvalTimeout: '2h',
  confirmationTimeouts: { L1: '5m', L2: '5m', L3: '3h', L4: '24h' },
  window: { batchSize: 500, dispatchInterval: '5s', jitterWindow: 4_000 },
}

/** For the demo and for tests: the same attempts, in seconds instead of hours, at ten to a hundred times the rate. */
export const hurried: Pace = {
  risk: { ...asSpecified.risk, retryDelay: '300ms', callsPerSecond: 1_000 },
  fx: { ...asSpecified.fx, retryDelay: '200ms', callsPerSecond: 1_000 },
  gateway: { ...asSpecified.gateway, retryDelay: '100ms', callsPerSecond: 1_000 },
  serviceTimeout: '5s',
  approvalTimeout: '15s',
  confirmationTimeouts: { L1: '6s', L2: '6s', L3: '8s', L4: '10s' },
  window: { batchSize: 10, dispatchInterval: '500ms', jitterWindow: 0 },
}

const TWENTY_MINUTES = '20m'

/** For tests that wait for conditions: as quick as `hurried`, with time limits that are long enough for a busy machine. */
export const patient: Pace = {
  ...hurried,
  serviceTimeout: '60s',
  approvalTimeout: TWENTY_MINUTES,
  confirmationTimeouts: { L1: TWENTY_MINUTES, L2: TWENTY_MINUTES, L3: TWENTY_MINUTES, L4: TWENTY_MINUTES },
}

export const limitKeys = { risk: 'risk_api', fx: 'fx_booking_api', gateway: 'payment_gateway' } as const

/** By name, for worker processes. */
export const paces = { asSpecified, hurried, patient } as const
