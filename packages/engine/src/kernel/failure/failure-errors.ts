/** Transient failures are retried, business failures end or compensate, permanent ones need a person. */
export type FailureKind = 'TRANSIENT' | 'BUSINESS' | 'PERMANENT'

export interface FailureOptions extends ErrorOptions {
  /** A stable name for programs, such as `'CARD_DECLINED'`. */
  readonly code?: string
  /** More information for the person who looks at the failure; stored as JSON. */
  readonly details?: unknown
}

/** Under this symbol an error says its kind. Global, so that two copies of the package in one program agree. */
export const failureKind: unique symbol = Symbol.for('holdfast.failureKind')

abstract class FailureError extends Error {
  abstract readonly [failureKind]: FailureKind
  readonly code: string
  readonly details: unknown

  constructor(message: string, defaultCode: string, options: FailureOptions | undefined) {
    // Also for null: a TypeError instead of this error would be another kind of failure, and the call would be repeated.
    const { code = defaultCode, details, ...errorOptions } = options ?? {}
    super(message, errorOptions)
    this.code = code
    this.details = details
  }
}

/**
 * It may succeed the next time: it is retried.
 *
 * @example
 * if (response.status === 503) throw new TransientError('the risk service is restarting')
 */
export class TransientError extends FailureError {
  override readonly name = 'TransientError'
  override readonly [failureKind] = 'TRANSIENT'

  constructor(message: string, options?: FailureOptions) {
    super(message, 'TRANSIENT_ERROR', options)
  }
}

/**
 * A refusal, not a malfunction: it is not retried and needs no operator; the work fails or is compensated.
 *
 * @example
 * throw new BusinessError('the card was declined', { code: 'CARD_DECLINED', details: { reason } })
 */
export class BusinessError extends FailureError {
  override readonly name = 'BusinessError'
  override readonly [failureKind] = 'BUSINESS'

  constructor(message: string, options?: FailureOptions) {
    super(message, 'BUSINESS_ERROR', options)
  }
}

/**
 * It cannot succeed without a person: it is not retried and goes to troubleshooting.
 *
 * @example
 * throw new PermanentError('the account does not exist', { code: 'NO_ACCOUNT' })
 */
export class PermanentError extends FailureError {
  override readonly name = 'PermanentError'
  override readonly [failureKind] = 'PERMANENT'

  constructor(message: string, options?: FailureOptions) {
    super(message, 'PERMANENT_ERROR', options)
  }
}
