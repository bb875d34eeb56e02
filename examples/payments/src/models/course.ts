import { BusinessError, type Holdfast, type ProcessContext } from 'holdfast'
import type { ResponseSchemas } from 'holdfast/types'
import type pg from 'pg'
import { inTransaction } from '../database/transaction.js'
import { levels } from '../domain/payment.js'
import { endUnbooked, settlePayment, unwindPayment } from '../ledger/ledger.js'
import { requestApproval } from '../network/approvals.js'
import { limitKeys, type Pace } from '../pace.js'
import type { Services } from '../services/services.js'
import {
  creditOf,
  crossesCurrencies,
  fxRequestOf,
  type PaymentState,
  rejectionIn,
  riskRequestOf,
  submissionOf,
} from './state.js'

export interface ModelParts {
  readonly hf: Holdfast
  readonly pool: pg.Pool
  readonly services: Services
  readonly pace: Pace
}

export const PAYMENT = { domain: 'payments', type: 'Payment' } as const
export const SCHEDULED_PAYMENT = { domain: 'payments', type: 'ScheduledPayment' } as const

type Context = ProcessContext<ResponseSchemas, PaymentState>

/** What payments as sequential code have in common: from the booked money to the settled payment, and back. */
export function courseOf({ hf, pool, services, pace }: ModelParts) {
  const { risk, fx, gateway } = services
  const limited = (service: keyof typeof limitKeys) => ({
    rateLimit: { key: limitKeys[service], maxWait: pace[service].maxWait },
    retry: { maxAttempts: pace[service].maxAttempts, delay: pace[service].retryDelay },
    timeout: pace.serviceTimeout,
  })

  async function bookRisk(ctx: Context, state: PaymentState): Promise<void> {
    state.risk = await ctx.step('bookRisk', (call) => risk.book(riskRequestOf(state), call), {
      ...limited('risk'),
      // Also if the call failed: it may have been booked before the response was lost.
      compensateIf: 'attempted',
      compensate: (_, call) => risk.unwind(state.paymentId, call),
    })
    if (state.risk.decision !== 'PENDING') return
    await ctx.transaction('requestApproval', (tx) => requestApproval(tx, state.paymentId))
    await ctx.wait('awaitApproval', () => state.approval !== undefined, { timeout: pace.approvalTimeout })
    if (state.approval?.decision !== 'DECLINED') return
    const { by, comment = 'no reason given' } = state.approval
    throw new BusinessError(`declined by ${by}: ${comment}`, { code: 'APPROVAL_DECLINED' })
  }

  async function bookFx(ctx: Context, state: PaymentState): Promise<void> {
    state.fx = await ctx.step(
      'bookFx',
      async (call) => {
        const { contractId, rate, bought } = await fx.book(fxRequestOf(state), call)
        return { contractId, rate, bought: { ...bought } }
      },
      {
        ...limited('fx'),
        compensateIf: 'attempted',
        compensate: (_, call) => fx.unwind(state.paymentId, call),
      },
    )
  }

  async function submit(ctx: Context, state: PaymentState): Promise<void> {
    const { reference } = await ctx.step('submit', (call) => gateway.submit(submissionOf(state), call), {
      ...limited('gateway'),
      // The gateway pays twice when it is called twice: after a crash or a timeout the engine inquires first.
      atMostOnce: true,
      inquire: (call) => gateway.inquire(call),
      compensateIf: 'attempted',
      compensate: (_, call) => gateway.recall(state.paymentId, call),
    })
    state.submission = reference
  }

  async function awaitConfirmations(ctx: Context, state: PaymentState): Promise<void> {
    for (const level of levels) {
      const answered = () => state.network[level] !== undefined || rejectionIn(state) !== undefined
      await ctx.wait(`await${level}`, answered, { timeout: pace.confirmationTimeouts[level] })
      const rejected = rejectionIn(state)
      if (rejected) throw new BusinessError(`${rejected.level}: ${rejected.message}`, { code: rejected.code })
    }
  }

  return {
    async settle(ctx: Context, state: PaymentState): Promise<{ credited: string; currency: string }> {
      await bookRisk(ctx, state)
      if (crossesCurrencies(state)) await bookFx(ctx, state)
      await submit(ctx, state)
      await awaitConfirmations(ctx, state)
      const { amount, currency } = creditOf(state)
      await ctx.transaction('complete', (tx) => settlePayment(tx, state.paymentId, amount))
      return { credited: amount, currency }
    },
    /** The last compensation: the money is returned, and the payment has ended. */
    async giveBack(
      process: typeof PAYMENT | typeof SCHEDULED_PAYMENT,
      processId: string,
      { paymentId }: PaymentState,
    ): Promise<void> {
      const { cancelling } = await hf.process(process, processId).get()
      await inTransaction(pool, (tx) => unwindPayment(tx, paymentId, cancelling ? 'CANCELLED' : 'FAILED'))
    },
    /**
     * A payment that had not begun has nothing to undo, and has ended all the same. Hooks are called at most once: what a worker that died
     * here leaves open is ended by `endLeftBehind`.
     */
    async endUnbooked({ paymentId }: PaymentState, status: 'FAILED' | 'CANCELLED'): Promise<void> {
      await inTransaction(pool, (tx) => endUnbooked(tx, paymentId, status))
    },
  }
}
