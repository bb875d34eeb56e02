import type { Inquiry } from 'holdfast/types'
import type { Currency } from '../domain/currency.js'
import type { Money } from '../domain/money.js'

/** What every call of a service carries: the same key for the same effect, and when to stop waiting. */
export interface ServiceCall {
  readonly idempotencyKey: string
  readonly signal?: AbortSignal
}

interface RiskRequest {
  readonly paymentId: string
  readonly debitAccount: string
  readonly amount: Money
}

export interface RiskDecision {
  readonly reference: string
  /** `PENDING`: a person has to approve it. A refusal is a `BusinessError` with `RISK_DECLINED`. */
  readonly decision: 'APPROVED' | 'PENDING'
}

export interface RiskService {
  book(request: RiskRequest, call: ServiceCall): Promise<RiskDecision>
  /** Unwinds whatever is booked for the payment, if anything is. */
  unwind(paymentId: string, call: ServiceCall): Promise<unknown>
}

interface FxRequest {
  readonly paymentId: string
  readonly sell: Money
  readonly buy: Currency
  readonly valueDate: string
}

interface FxContract {
  readonly contractId: string
  readonly rate: string
  readonly bought: Money
}

export interface FxService {
  book(request: FxRequest, call: ServiceCall): Promise<FxContract>
  unwind(paymentId: string, call: ServiceCall): Promise<unknown>
}

export interface Submission {
  readonly paymentId: string
  readonly creditAccount: string
  readonly amount: Money
  readonly valueDate: string
}

export interface Submitted {
  readonly reference: string
}

/** Called twice, it pays twice: the caller makes sure that it is called once. */
export interface PaymentGateway {
  submit(submission: Submission, call: ServiceCall): Promise<Submitted>
  /** The outcome of a submission whose response never came. */
  inquire(call: ServiceCall): Promise<Inquiry<Submitted>>
  /** Recalls whatever was submitted for the payment and is not settled, if anything is. */
  recall(paymentId: string, call: ServiceCall): Promise<unknown>
}

export interface Services {
  readonly risk: RiskService
  readonly fx: FxService
  readonly gateway: PaymentGateway
}
