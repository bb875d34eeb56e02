import { defineProcess, type Queryable } from 'holdfast'
import { accept, bookPayment } from '../ledger/ledger.js'
import { queueNotifications, sendNotifications } from '../ledger/notifications.js'
import { courseOf, type ModelParts, PAYMENT, SCHEDULED_PAYMENT } from './course.js'
import { ApprovalAnswer, NetworkAnswer, PaymentState } from './state.js'

/** What may come from outside while a payment waits. */
const responses = {
  approvalDecided: {
    data: ApprovalAnswer,
    apply(state: PaymentState, answer: ApprovalAnswer) {
      state.approval ??= answer
    },
  },
  networkAnswered: {
    data: NetworkAnswer,
    apply(state: PaymentState, answer: NetworkAnswer) {
      state.network[answer.level] ??= answer
    },
  },
}

/** A payment as sequential code, executed from top to bottom. */
export function paymentProcess(parts: ModelParts) {
  const course = courseOf(parts)
  return defineProcess(PAYMENT.domain, PAYMENT.type, {
    state: PaymentState,
    responses,
    deadline: ({ cutoffAt }) => new Date(cutoffAt),
    deadlineAction: 'compensate',
    async execute(ctx, state) {
      await ctx.transaction('updateStatus', (tx) => bookPayment(tx, state.paymentId), {
        compensate: () => course.giveBack(PAYMENT, ctx.id, state),
      })
      return course.settle(ctx, state)
    },
    onFailed: (state) => course.endUnbooked(state, 'FAILED'),
    onCancelled: (state) => course.endUnbooked(state, 'CANCELLED'),
  })
}

/** The second phase of a scheduled payment: executes what the first phase has prepared, when it is released. */
export function scheduledPaymentProcess(parts: ModelParts) {
  const course = courseOf(parts)
  return defineProcess(SCHEDULED_PAYMENT.domain, SCHEDULED_PAYMENT.type, {
    state: PaymentState,
    responses,
    deadline: ({ cutoffAt }) => new Date(cutoffAt),
    deadlineAction: 'compensate',
    async execute(ctx, state) {
      await ctx.transaction('execute', (tx) => accept(tx, state.paymentId, ctx.id))
      await ctx.transaction('postProcess', (tx) => queueNotifications(tx, state.paymentId))
      await ctx.transaction('notify', (tx) => notify(tx, state.paymentId), {
        compensate: () => course.giveBack(SCHEDULED_PAYMENT, ctx.id, state),
      })
      return course.settle(ctx, state)
    },
    onFailed: (state) => course.endUnbooked(state, 'FAILED'),
    onCancelled: (state) => course.endUnbooked(state, 'CANCELLED'),
  })
}

/** Notifies all parties and takes the money, in one transaction. */
async function notify(tx: Queryable, paymentId: string): Promise<void> {
  await sendNotifications(tx, paymentId)
  await bookPayment(tx, paymentId)
}

export type PaymentProcess = ReturnType<typeof paymentProcess>
export type ScheduledPaymentProcess = ReturnType<typeof scheduledPaymentProcess>
