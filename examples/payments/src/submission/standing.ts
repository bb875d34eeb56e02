import type { Holdfast } from 'holdfast'
import type pg from 'pg'
import { levels, type Payment } from '../domain/payment.js'
import type { Definitions } from '../models/definitions.js'
import { type NetworkAnswer, PaymentState } from '../models/state.js'
import { findPayment } from './payments.js'
import { processOf } from './processes.js'
import { awaitsRelease, type Release, releaseOf } from './release.js'

/** The status of a payment. */
export interface Standing {
  readonly payment: Payment
  /** `PENDING`, `WAITING_FOR_ASYNC`, … of the process that pays it; null while there is none. */
  readonly process: string | null
  /** Of a scheduled payment: whether it has been released. */
  readonly release: Release | null
  /** As text; null once it has ended. */
  readonly waitsFor: string | null
  readonly approval: { readonly decision: string; readonly by: string } | null
  readonly confirmations: Readonly<Record<string, NetworkAnswer | null>>
  readonly error: { readonly code: string; readonly message: string } | null
}

interface Parts {
  readonly hf: Holdfast
  readonly pool: pg.Pool
  readonly definitions: Definitions
}

export async function standingOf({ hf, pool, definitions }: Parts, paymentId: string): Promise<Standing | undefined> {
  const payment = await findPayment(pool, paymentId)
  if (!payment) return undefined
  const release = payment.executeAt ? await releaseOf(hf, definitions.PaymentWindow, paymentId) : null
  const { processId } = payment
  const record = processId === null ? undefined : await hf.process(processOf(payment), processId).get()
  const state = PaymentState.safeParse(record?.state)
  const { approval, network = {} } = state.success ? state.data : {}
  const waits = record ? waitsFor(record) : awaitsRelease(release, payment.executeAt, new Date())
  return {
    payment,
    process: record?.status ?? null,
    release,
    waitsFor: payment.endedAt ? null : waits,
    approval: approval ? { decision: approval.decision, by: approval.by } : null,
    confirmations: Object.fromEntries(levels.map((level) => [level, network[level] ?? null])),
    error: record?.error ? { code: record.error.code, message: record.error.message } : null,
  }
}

const words: Readonly<Record<string, string>> = {
  awaitApproval: 'an approval by a person',
  awaitL1: 'confirmation L1 of the network',
  awaitL2: 'confirmation L2 of the network',
  awaitL3: 'confirmation L3 of the network',
  awaitL4: 'confirmation L4 of the network',
}

function waitsFor({ status, waitingFor }: { readonly status: string; readonly waitingFor: string | null }): string {
  if (status === 'WAITING_FOR_TSQ') return 'an operator: it is in troubleshooting'
  if (status === 'WAITING_FOR_RETRY') return `the next attempt of ${waitingFor ?? 'a step'}`
  if (status === 'COMPENSATING') return 'its undoing'
  if (waitingFor === null) return 'a worker'
  return words[waitingFor] ?? `the step ${waitingFor}`
}
