import type { Currency } from './currency.js'
import type { Money } from './money.js'
import type { PaymentStatus } from './status.js'

/** How a payment is executed: as sequential code, or as a state machine over commands. */
export const executionModels = ['PROCESS_STEP', 'STEP_BASED'] as const

export type ExecutionModel = (typeof executionModels)[number]

/** The levels at which the network confirms a payment, in their order. */
export const levels = ['L1', 'L2', 'L3', 'L4'] as const

export type Level = (typeof levels)[number]

export function levelAfter(level: Level): Level | undefined {
  return levels[levels.indexOf(level) + 1]
}

/** What a customer asks for, checked. */
export interface PaymentOrder {
  readonly debitAccount: string
  readonly debit: Money
  readonly creditAccount: string
  readonly creditCurrency: Currency
  /** `2026-11-30` */
  readonly valueDate: string
  readonly cutoffAt: Date
}

/** A payment as it is stored. */
export interface Payment extends PaymentOrder {
  readonly id: string
  readonly batchId: string | null
  readonly model: ExecutionModel
  readonly status: PaymentStatus
  readonly creditAmount: string | null
  readonly executeAt: Date | null
  readonly createdAt: Date
  readonly endedAt: Date | null
  /** The process that pays it; null while a scheduled one has not begun. */
  readonly processId: string | null
}

export const needsFx = ({ debit, creditCurrency }: Pick<PaymentOrder, 'debit' | 'creditCurrency'>): boolean =>
  debit.currency !== creditCurrency
