import { randomUUID } from 'node:crypto'
import { createRandom } from '@holdfast/testing'
import { z } from 'zod'
import { Behaviour } from '../behaviour/behaviour.js'
import { inTransaction } from '../database/transaction.js'
import { type Currency, currencies } from '../domain/currency.js'
import { money } from '../domain/money.js'
import { modelInput, parseInput } from '../domain/order.js'
import type { Payment } from '../domain/payment.js'
import { initialState } from '../models/state.js'
import { insertPayments, type NewPayment } from './payments.js'
import { schedulePayments } from './schedule.js'
import type { SubmitParts } from './submit.js'

/** Payments generated from a seed: how many, in which model, and how the simulated world treats them. */
const BatchInput = z.strictObject({
  name: z.string().min(1).max(200).default('payments'),
  payments: z.int({ error: 'must be a whole number from 1 to 100000' }).min(1).max(100_000),
  model: modelInput,
  seed: z
    .union([z.string().min(1).max(100), z.int()])
    .transform(String)
    .default('1'),
  behaviour: Behaviour.default({}),
  /** If it is in the future: a scheduled window, in which all of them are due at this moment. */
  executeAt: z.iso.datetime({ offset: true, error: 'must be a moment, such as "2026-11-30T16:00:00Z"' }).optional(),
})

export interface CreatedBatch {
  readonly id: string
  readonly name: string
  readonly size: number
}

/** The size of the chunks in which they are inserted and started, within one transaction. */
const CHUNK = 1_000
const HOUR = 3_600_000

/** All of them or none: the payments and their processes, or the window they are released from, are one transaction. */
export async function createBatch(parts: SubmitParts, body: unknown): Promise<CreatedBatch> {
  const { hf, pool } = parts
  const input = parseInput(BatchInput, body)
  const { name, payments: size, model, seed, behaviour, executeAt } = input
  const id = executeAt === undefined ? await hf.batches.open('payments', { name }) : randomUUID()
  await inTransaction(pool, async (tx) => {
    await tx.query(
      'insert into payments.batch (id, name, model, seed, behaviour, size) values ($1, $2, $3, $4, $5, $6)',
      [id, name, model, seed, JSON.stringify(behaviour), size],
    )
    const { rows: accounts } = await tx.query<Account>('select number, currency from payments.account order by number')
    if (accounts.length < 2) throw new Error('there are no accounts to pay from; open some first')
    const cutoffAt = new Date(Date.now() + 4 * HOUR)
    for (let from = 0; from < size; from += CHUNK) {
      const drafts = Array.from({ length: Math.min(CHUNK, size - from) }, (_, n) => ({
        ...orderFrom(seed, from + n, accounts),
        cutoffAt,
        id: randomUUID(),
        model,
        batchId: id,
        ordinal: from + n,
      }))
      if (executeAt === undefined) await startAll(parts, tx, id, drafts)
      else await schedulePayments(parts, tx, drafts, new Date(executeAt))
    }
  })
  if (executeAt === undefined) await hf.batches.seal(id)
  return { id, name, size }
}

type Transaction = Parameters<typeof insertPayments>[0]

async function startAll(
  { hf, definitions }: SubmitParts,
  transaction: Transaction,
  batchId: string,
  drafts: readonly Omit<NewPayment, 'status'>[],
): Promise<void> {
  const payments = await insertPayments(
    transaction,
    drafts.map((draft) => ({ ...draft, status: 'ACCEPTED' })),
  )
  if (drafts[0]?.model === 'PROCESS_STEP') {
    const processes = payments.map((payment) => ({ id: payment.id, input: initialState(payment) }))
    await hf.startMany(definitions.Payment, processes, { batch: batchId, transaction })
    return
  }
  const start = (payment: Payment) =>
    hf.start(definitions.StepPayment, initialState(payment), { id: payment.id, batch: batchId, transaction })
  for (const payment of payments) await start(payment)
}

interface Account {
  readonly number: string
  readonly currency: Currency
}

/** The same order for the same seed and place. */
function orderFrom(seed: string, ordinal: number, accounts: readonly Account[]) {
  const dice = createRandom(`${seed}/${ordinal}/order`)
  const one = Math.floor(dice() * accounts.length)
  const other = (one + 1 + Math.floor(dice() * (accounts.length - 1))) % accounts.length
  const debit = accounts[one] ?? { number: '', currency: 'EUR' }
  const credit = accounts[other] ?? debit
  const units = Math.floor(1 + dice() * 249_999)
  const digits = currencies[debit.currency]
  const fraction = digits === 0 ? '' : `.${Math.floor(dice() * 10 ** digits)}`.padEnd(digits + 1, '0')
  return {
    debitAccount: debit.number,
    debit: money(`${units}${fraction}`, debit.currency),
    creditAccount: credit.number,
    creditCurrency: credit.currency,
    valueDate: new Date().toISOString().slice(0, 10),
  }
}
