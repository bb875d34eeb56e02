import type { Holdfast, Queryable } from 'holdfast'
import type { ExecutionModel } from '../domain/payment.js'
import { REPLY_QUEUE } from '../models/payment-manager.js'
import type { PaymentProcess, ScheduledPaymentProcess } from '../models/payment-process.js'
import type { ApprovalAnswer, NetworkAnswer } from '../models/state.js'

/** The part of a payment that a response needs. */
export interface Addressee {
  readonly paymentId: string
  readonly model: ExecutionModel
  readonly scheduled: boolean
  /** The process that pays it. */
  readonly processId: string
}

interface AnswerOptions {
  /** The response is sent in this transaction too: both happen, or neither. */
  readonly transaction?: Queryable
}

/** Delivers responses from outside to payments: to sequential ones as a response, to step-based ones as a reply message. */
export interface Answering {
  approval(to: Addressee, answer: ApprovalAnswer, options?: AnswerOptions): Promise<void>
  network(to: Addressee, answer: NetworkAnswer, options?: AnswerOptions): Promise<void>
}

/** The columns of `Addressee`, for queries that have `payment`. */
export const addresseeColumns = `
  payment.id as "paymentId", payment.model, payment.execute_at is not null as scheduled,
  coalesce(payment.process_id, payment.id) as "processId"`

/** Each response has an id, the approval or the level, so that a second delivery has no effect. */
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
