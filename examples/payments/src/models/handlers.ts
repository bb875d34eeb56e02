import { type CommandContext, PermanentError, TransientError } from 'holdfast'
import { inTransaction } from '../database/transaction.js'
import { bookPayment, settlePayment, unwindPayment } from '../ledger/ledger.js'
import { requestApproval } from '../network/approvals.js'
import { limitKeys } from '../pace.js'
import type { PaymentGateway, Submission, Submitted } from '../services/services.js'
import type { PaymentCommands } from './commands.js'
import type { ModelParts } from './course.js'
import { STEP_PAYMENT } from './payment-manager.js'
import { creditOf, fxRequestOf, riskRequestOf, submissionOf } from './state.js'

/** The handlers of the commands of step-based payments. */
export function handlePaymentCommands(commands: PaymentCommands, { hf, pool, services, pace }: ModelParts): void {
  const { risk, fx, gateway } = services
  const slot = (service: keyof typeof limitKeys, { signal }: CommandContext) =>
    hf.limits.acquire(limitKeys[service], { maxWait: pace[service].maxWait, signal })

  hf.handle(commands.Begin, ({ paymentId }, ctx) => ctx.transaction((tx) => bookPayment(tx, paymentId)))

  hf.handle(commands.BookRisk, async (payment, ctx) => {
    await slot('risk', ctx)
    const booked = await risk.book(riskRequestOf(payment), ctx)
    if (booked.decision === 'APPROVED') return booked
    return ctx.transaction(async (tx) => {
      await requestApproval(tx, payment.paymentId)
      return booked
    })
  })

  hf.handle(commands.BookFx, async (payment, ctx) => {
    await slot('fx', ctx)
    const { contractId, rate, bought } = await fx.book(fxRequestOf(payment), ctx)
    return { contractId, rate, bought: { ...bought } }
  })

  hf.handle(commands.Submit, async (payment, ctx) => {
    // On every attempt: an operator's retry begins again with the first.
    const known = await gateway.inquire(ctx)
    if (typeof known === 'object') return known.done
    if (known === 'unknown') throw new TransientError('the gateway does not know yet', { code: 'OUTCOME_UNKNOWN' })
    await slot('gateway', ctx)
    return submitOnce(gateway, submissionOf(payment), ctx)
  })

  hf.handle(commands.Complete, (payment, ctx) =>
    ctx.transaction((tx) => settlePayment(tx, payment.paymentId, creditOf(payment).amount)),
  )

  hf.handle(commands.Recall, ({ paymentId }, ctx) => gateway.recall(paymentId, ctx))
  hf.handle(commands.UnwindFx, ({ paymentId }, ctx) => fx.unwind(paymentId, ctx))
  hf.handle(commands.UnwindRisk, ({ paymentId }, ctx) => risk.unwind(paymentId, ctx))

  hf.handle(commands.GiveBack, async ({ paymentId }, ctx) => {
    // A command that was cancelled in troubleshooting may have had its effect, although it is not on record as done.
    await gateway.recall(paymentId, ctx)
    await fx.unwind(paymentId, ctx)
    await risk.unwind(paymentId, ctx)
    const { cancelling } = await hf.process(STEP_PAYMENT, paymentId).get()
    await inTransaction(pool, (tx) => unwindPayment(tx, paymentId, cancelling ? 'CANCELLED' : 'FAILED'))
  })
}

/** The gateway pays twice when it is called twice: a refusal needs a person, a missing response leads to an inquiry. */
async function submitOnce(gateway: PaymentGateway, submission: Submission, ctx: CommandContext): Promise<Submitted> {
  ctx.signal.throwIfAborted()
  try {
    return await gateway.submit(submission, ctx)
  } catch (error) {
    if (!(error instanceof TransientError) || ctx.signal.aborted) throw error
    throw new PermanentError(error.message, { code: 'SUBMISSION_FAILED', cause: error })
  }
}
