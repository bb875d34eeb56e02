import { defineManager, resultOf, type StepReply, stepCommand } from 'holdfast'
import { type Level, levels } from '../domain/payment.js'
import type { Pace } from '../pace.js'
import type { PaymentCommands } from './commands.js'
import { ApprovalAnswer, awaitedLevel, crossesCurrencies, NetworkAnswer, PaymentState } from './state.js'

export const STEP_PAYMENT = { domain: 'payments', type: 'StepPayment' } as const

/** The queue for responses to step-based payments. */
export const REPLY_QUEUE = 'payments__process_replies'

const waits = { awaitApproval: undefined, awaitL1: 'L1', awaitL2: 'L2', awaitL3: 'L3', awaitL4: 'L4' } as const

const steps = [
  'updateStatus',
  'bookRisk',
  'awaitApproval',
  'bookFx',
  'submit',
  'awaitL1',
  'awaitL2',
  'awaitL3',
  'awaitL4',
  'complete',
] as const

type Step = (typeof steps)[number]

const isWait = (step: Step): step is keyof typeof waits => step in waits

/** The same payment as a state machine over commands. */
export function paymentManager(commands: PaymentCommands, pace: Pace) {
  return defineManager(STEP_PAYMENT.domain, STEP_PAYMENT.type, {
    state: PaymentState,
    steps,
    firstStep: () => 'updateStatus',
    command(step, state) {
      if (step === 'bookRisk') return stepCommand(commands.BookRisk, state)
      if (step === 'bookFx') return stepCommand(commands.BookFx, state)
      if (step === 'submit') return stepCommand(commands.Submit, state)
      if (step === 'complete') return stepCommand(commands.Complete, state)
      return stepCommand(commands.Begin, { paymentId: state.paymentId })
    },
    onReply(state, step, reply) {
      if (step === 'bookRisk' && reply.outcome === 'SUCCESS')
        return { ...state, risk: resultOf(commands.BookRisk, reply) }
      if (step === 'bookFx' && reply.outcome === 'SUCCESS') return { ...state, fx: resultOf(commands.BookFx, reply) }
      if (step === 'submit' && reply.outcome === 'SUCCESS') {
        return { ...state, submission: resultOf(commands.Submit, reply).reference }
      }
      return isWait(step) ? heard(state, reply) : state
    },
    nextStep: (step, _reply, state) => stepAfter(step, state),
    compensation(step, { paymentId }) {
      if (step === 'submit') return stepCommand(commands.Recall, { paymentId })
      if (step === 'bookFx') return stepCommand(commands.UnwindFx, { paymentId })
      if (step === 'bookRisk') return stepCommand(commands.UnwindRisk, { paymentId })
      return step === 'updateStatus' ? stepCommand(commands.GiveBack, { paymentId }) : undefined
    },
    waitOnly: (step) => isWait(step),
    timeout(step) {
      const level = isWait(step) ? waits[step] : undefined
      return level ? pace.confirmationTimeouts[level] : pace.approvalTimeout
    },
    deadline: ({ cutoffAt }) => new Date(cutoffAt),
    deadlineAction: 'compensate',
  })
}

/** A reply from outside says what it is: a decision, or a level of the network. A refusal has no result but its text. */
function heard(state: PaymentState, { outcome, result, errorCode = '', errorMessage = '' }: StepReply): PaymentState {
  if (outcome !== 'SUCCESS') {
    const level = levels.find((one) => errorMessage.startsWith(`${one}: `))
    if (!level) return { ...state, approval: { decision: 'DECLINED', by: errorMessage } }
    const rejected = { level, outcome: 'REJECTED', code: errorCode, message: errorMessage } as const
    return { ...state, network: { ...state.network, [level]: rejected } }
  }
  const confirmed = NetworkAnswer.safeParse(result)
  if (confirmed.success) return { ...state, network: { ...state.network, [confirmed.data.level]: confirmed.data } }
  return { ...state, approval: ApprovalAnswer.parse(result) }
}

/** Responses may come early: steps that have theirs are skipped. */
function stepAfter(step: Step, state: PaymentState): Step | null {
  switch (step) {
    case 'updateStatus':
      return 'bookRisk'
    case 'bookRisk':
      if (state.risk?.decision === 'PENDING' && !state.approval) return 'awaitApproval'
      return crossesCurrencies(state) ? 'bookFx' : 'submit'
    case 'awaitApproval':
      if (!state.approval) return 'awaitApproval'
      return crossesCurrencies(state) ? 'bookFx' : 'submit'
    case 'bookFx':
      return 'submit'
    case 'complete':
      return null
    default:
      return waitFor(awaitedLevel(state))
  }
}

const waitFor = (level: Level | undefined): Step => (level ? `await${level}` : 'complete')
