import { z } from 'zod'
import { currencyCodes } from './currency.js'
import { amountProblem, money } from './money.js'
import { executionModels, type PaymentOrder } from './payment.js'
import { type FieldProblem, InvalidInput } from './problem.js'

const HOUR = 3_600_000
/** The default cut-off. */
const CUT_OFF = 4 * HOUR

const currency = z.enum(currencyCodes, { error: `must be one of ${currencyCodes.join(', ')}` })
const moment = z.iso.datetime({ offset: true, error: 'must be a moment, such as "2026-11-30T16:00:00Z"' })
const account = z.string({ error: 'must be the number of an account' }).min(1, 'must be the number of an account')

/** What is submitted: amounts as text, because most programs read a JSON number as a float. */
export const OrderInput = z.strictObject({
  debitAccount: account,
  creditAccount: account,
  amount: z.string({ error: 'must be a decimal number as text, such as "10.10"' }),
  debitCurrency: currency,
  creditCurrency: currency,
  valueDate: z.iso.date({ error: 'must be a date, such as "2026-11-30"' }).optional(),
  cutoffAt: moment.optional(),
})

export const modelInput = z.enum(executionModels, { error: `must be one of ${executionModels.join(', ')}` })

export const SubmissionInput = OrderInput.extend({
  model: modelInput.default('PROCESS_STEP'),
  /** If it is in the future, the payment is scheduled. */
  executeAt: moment.optional(),
})

export type OrderInput = z.output<typeof OrderInput>
export type SubmissionInput = z.output<typeof SubmissionInput>

/** What an order is checked against. */
export interface Circumstances {
  readonly now: Date
  /** The currency of each known account. */
  readonly accounts: ReadonlyMap<string, string>
}

/** Parses with a schema, and names every field that does not fit. */
export function parseInput<Schema extends z.ZodType>(schema: Schema, input: unknown): z.output<Schema> {
  const parsed = schema.safeParse(input)
  if (parsed.success) return parsed.data
  throw new InvalidInput(
    parsed.error.issues.flatMap((issue) => {
      const at = issue.path.join('.')
      const unknown = issue.code === 'unrecognized_keys' ? issue.keys : []
      if (unknown.length > 0)
        return unknown.map((key) => ({ field: [at, key].filter(Boolean).join('.'), detail: 'is unknown' }))
      return [{ field: at || 'body', detail: issue.message }]
    }),
  )
}

/** The rules of an order: all that is wrong with it, or the order. */
export function checkOrder(input: OrderInput, { now, accounts }: Circumstances): PaymentOrder {
  const { debitAccount, creditAccount, amount, debitCurrency, creditCurrency } = input
  const valueDate = input.valueDate ?? dayOf(now)
  const cutoffAt = input.cutoffAt === undefined ? new Date(now.getTime() + CUT_OFF) : new Date(input.cutoffAt)
  const problems: FieldProblem[] = []
  const check = (field: string, detail: string | false | undefined) => {
    if (detail) problems.push({ field, detail })
  }
  check('amount', amountProblem(amount, debitCurrency))
  check('creditAccount', debitAccount === creditAccount && 'must be another account than the debit account')
  check('debitAccount', accountProblem(accounts.get(debitAccount), debitCurrency))
  check('creditAccount', accountProblem(accounts.get(creditAccount), creditCurrency))
  check('valueDate', valueDate < dayOf(now) && 'must not lie in the past')
  check('cutoffAt', cutoffAt <= now && 'must lie ahead')
  if (problems.length > 0) throw new InvalidInput(problems)
  return { debitAccount, debit: money(amount, debitCurrency), creditAccount, creditCurrency, valueDate, cutoffAt }
}

function accountProblem(known: string | undefined, wanted: string): string | undefined {
  if (known === undefined) return 'is not an account that we know'
  return known === wanted ? undefined : `is held in ${known}, not in ${wanted}`
}

const dayOf = (moment: Date): string => moment.toISOString().slice(0, 10)
