import { z } from 'zod'
import { currencyCodes } from '../domain/currency.js'
import { type Level, levels, needsFx, type Payment } from '../domain/payment.js'

const MoneyState = z.object({ amount: z.string(), currency: z.enum(currencyCodes) })

export const RiskState = z.object({ reference: z.string(), decision: z.enum(['APPROVED', 'PENDING']) })
export const FxState = z.object({ contractId: z.string(), rate: z.string(), bought: MoneyState })

/** The decision of the approver. */
export const ApprovalAnswer = z.object({
  decision: z.enum(['APPROVED', 'DECLINED']),
  by: z.string(),
  comment: z.string().optional(),
})

/** The response of the network at one level: a reference, or the reason of a refusal. */
export const NetworkAnswer = z.discriminatedUnion('outcome', [
  z.object({ level: z.enum(levels), outcome: z.literal('CONFIRMED'), reference: z.string() }),
  z.object({ level: z.enum(levels), outcome: z.literal('REJECTED'), code: z.string(), message: z.string() }),
])

export type ApprovalAnswer = z.output<typeof ApprovalAnswer>
export type NetworkAnswer = z.output<typeof NetworkAnswer>

/** The state of a payment while it runs, the same in both models. Copied at its start, so that no query is needed later. */
export const PaymentState = z.object({
  paymentId: z.uuid(),
  debitAccount: z.string(),
  debit: MoneyState,
  creditAccount: z.string(),
  creditCurrency: z.enum(currencyCodes),
  valueDate: z.string(),
  cutoffAt: z.string(),
  risk: RiskState.optional(),
  approval: ApprovalAnswer.optional(),
  fx: FxState.optional(),
  submission: z.string().optional(),
  network: z.partialRecord(z.enum(levels), NetworkAnswer).default({}),
})

export type PaymentState = z.output<typeof PaymentState>

export function initialState(payment: Payment): z.input<typeof PaymentState> {
  const { id, debitAccount, debit, creditAccount, creditCurrency, valueDate, cutoffAt } = payment
  return {
    paymentId: id,
    debitAccount,
    debit: { ...debit },
    creditAccount,
    creditCurrency,
    valueDate,
    cutoffAt: cutoffAt.toISOString(),
  }
}

export const riskRequestOf = ({ paymentId, debitAccount, debit }: PaymentState) => ({
  paymentId,
  debitAccount,
  amount: debit,
})

export const fxRequestOf = ({ paymentId, debit, creditCurrency, valueDate }: PaymentState) => ({
  paymentId,
  sell: debit,
  buy: creditCurrency,
  valueDate,
})

/** What the payee gets: the amount that was bought, or the amount that was debited. */
export const creditOf = ({ fx, debit }: Pick<PaymentState, 'fx' | 'debit'>) => fx?.bought ?? debit

export const submissionOf = (state: PaymentState) => ({
  paymentId: state.paymentId,
  creditAccount: state.creditAccount,
  amount: creditOf(state),
  valueDate: state.valueDate,
})

export const crossesCurrencies = (state: PaymentState): boolean => needsFx(state)

/** The network's refusal at any level, as soon as there is one. */
export function rejectionIn({ network }: Pick<PaymentState, 'network'>) {
  return levels.map((level) => network[level]).find((answer) => answer?.outcome === 'REJECTED')
}

/** The first level without a response. */
export function awaitedLevel({ network }: Pick<PaymentState, 'network'>): Level | undefined {
  return levels.find((level) => network[level] === undefined)
}
