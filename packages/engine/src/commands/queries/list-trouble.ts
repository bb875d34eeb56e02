export interface TroubleFilter {
  readonly domain?: string
  readonly type?: string
  /** Failures of one group. */
  readonly fingerprint?: string
  /** 100 unless given. */
  readonly limit?: number
}

export interface FailureGroup {
  readonly fingerprint: string
  readonly domain: string
  readonly type: string
  readonly code: string
  /** The message of one of them. */
  readonly example: string
  readonly count: number
  readonly oldest: Date
  readonly newest: Date
}
