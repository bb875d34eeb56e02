import type { Holdfast, Queryable } from 'holdfast'
import type { ExecutionModel } from '../domain/payment.js'
import { REPLY_QUEUE } from '../models/payment-manager.js'
import type { PaymentProcess, ScheduledPaymentProcess } from '../models/payment-process.js'
import type { ApprovalAnswer, NetworkAnswer } from '../models/state.js'

/** A payment, as far as whoever answers it needs to know it. */
export interface Addressee {
  readonly paymentId: string
  readonly model: ExecutionModel
  readonly scheduled: boolean
  /** The process that pays it. */
  readonly processId: string
}

interface AnswerOptions {
  /** Also for the answer to be given: both happen, or neither. */
  readonly transaction?: Queryable
}

/** Brings answers from outside to payments: to sequential ones as a response, to step-based ones as a reply message. */
export interface Answering {
  approval(to: Addressee, answer: ApprovalAnswer, options?: AnswerOptions): Promise<void>
  network(to: Addressee, answer: NetworkAnswer, options?: AnswerOptions): Promise<void>
}

/** The columns of `Addressee`, for queries that have `payment`. */
export const addresseeColumns = `
  payment.id as "paymentId", payment.model, payment.execute_at is not null as scheduled,
  coalesce(payment.process_id, payment.id) as "processId"`

/** The same answer twice is one: each has an id of its own, the approval or the level. */
export function createAnswering(
  hf: Holdfast,
  {
    Payment,
    ScheduledPayment,
  }: { readonly Payment: PaymentProcess; readonly ScheduledPayment: ScheduledPaymentProcess },
): Answering {
  const reply = async (paymentId: string, replyId: string, message: object, { transaction }: AnswerOptions) => {
    const given = { correlation_id: paymentId, reply_id: replyId, final: true, ...message }
    await hf.queues.send(REPLY_QUEUE, given, transaction ? { transaction } : {})
  }
  return {
    async approval({ paymentId, model, scheduled, processId }, answer, options = {}) {
      const responseId = 'approval'
      if (model === 'STEP_BASED') return reply(paymentId, responseId, approvalMessage(answer), options)
      const definition = scheduled ? ScheduledPayment : Payment
      return hf.process(definition, processId).respond('approvalDecided', answer, { responseId, ...options })
    },
    async network({ paymentId, model, scheduled, processId }, answer, options = {}) {
      const responseId = answer.level
      if (model === 'STEP_BASED') return reply(paymentId, responseId, networkMessage(answer), options)
      const definition = scheduled ? ScheduledPayment : Payment
      return hf.process(definition, processId).respond('networkAnswered', answer, { responseId, ...options })
    },
  }
}

function approvalMessage(answer: ApprovalAnswer): object {
  if (answer.decision === 'APPROVED') return { outcome: 'SUCCESS', result: answer }
  const error_message = `declined by ${answer.by}: ${answer.comment ?? 'no reason given'}`
  return { outcome: 'FAILED', error_type: 'BUSINESS_RULE', error_code: 'APPROVAL_DECLINED', error_message }
}

function networkMessage(answer: NetworkAnswer): object {
  if (answer.outcome === 'CONFIRMED') return { outcome: 'SUCCESS', result: answer }
  const error_message = `${answer.level}: ${answer.message}`
  return { outcome: 'FAILED', error_type: 'BUSINESS_RULE', error_code: answer.code, error_message }
}
