// Says why an instance does not continue, from its active and failed steps. Pure; `queries/find-why.ts` reads what it needs.

import { missingWorker, PAUSED, type Why } from '../kernel/model/index.js'
import { ROOT } from './queries/claim-steps.js'
import { type InstanceStatus, instanceHasEnded } from './states.js'

/** A step that waits for a call, a person or its time, or that a worker has. The start of an instance has no `step`. */
export interface ActiveStep {
  readonly step: string | null
  /** The handler that is called next; null where a person decides. */
  readonly handler: string | null
  readonly compensates: boolean
  /** Calls so far. */
  readonly attempts: number
  /** Since when it could continue, or since when it waits for a decision. */
  readonly since: Date
  /** When it is due; while a worker has it, when the lease ends. Null while it is paused. */
  readonly dueAt: Date | null
  readonly isLater: boolean
  readonly leasedBy: string | null
  readonly isPaused: boolean
  /** A live worker has the handler. */
  readonly hasWorker: boolean
}

/** What failed for good and waits for a person. */
export interface FailedForGood {
  readonly step: string
  readonly kind: 'step' | 'compensation'
  readonly code: string
  readonly message: string
}

export interface WhyInput {
  readonly status: InstanceStatus
  readonly endedAt: Date | null
  readonly error: { readonly step: string; readonly code: string; readonly message: string } | null
  readonly active: readonly ActiveStep[]
  readonly failed: readonly FailedForGood[]
}

/** Where several steps are active, the first of these that one of them has is the reason of the instance. */
const ORDER = ['needsPerson', 'running', 'paused', 'noWorker', 'queued', 'notDue', 'waiting'] as const

/** Why an instance does not continue, or that it has ended: a sentence for each step that is active, the reason's first. */
export function whyOf({ status, endedAt, error, active, failed }: WhyInput): Why {
  const found = [...failed.map(needsPerson), ...active.map(whyOfStep)]
  const sorted = found.toSorted((a, b) => place(a) - place(b))
  const [first, ...others] = sorted
  if (first) return { ...first, text: [first, ...others].map(({ text }) => text).join(' ') }
  if (!instanceHasEnded(status)) return { reason: 'queued', text: `It is ${status} and no step of it is active.` }
  const cause = error === null ? '' : `: step \`${error.step}\` failed with ${error.code}: ${error.message}`
  const text = `It ended ${status}${endedAt ? ` at ${endedAt.toISOString()}` : ''}${cause}.`
  return { reason: 'ended', text }
}

const place = ({ reason }: Why): number => ORDER.findIndex((each) => each === reason)

function needsPerson({ step, kind, code, message }: FailedForGood): Why {
  const what = kind === 'step' ? `Step \`${step}\`` : `The compensation of step \`${step}\``
  return {
    reason: 'needsPerson',
    text: `${what} failed for good with ${code}: ${message}. Retry, complete or cancel it.`,
  }
}

function whyOfStep(active: ActiveStep): Why {
  const { step, handler, attempts, since, dueAt, leasedBy } = active
  const what = nameOf(active)
  const at = dueAt === null ? {} : { at: dueAt }
  const time = dueAt?.toISOString()
  if (handler === null) {
    const text = `${what} waits for a decision since ${since.toISOString()}.`
    return { reason: 'waiting', text }
  }
  if (leasedBy !== null) {
    const text = `${what} runs on worker ${leasedBy}; its lease ends at ${time} unless the worker extends it.`
    return { reason: 'running', text, ...at }
  }
  if (active.isPaused) return { reason: 'paused', text: `${what} is ${PAUSED}.` }
  if (!active.hasWorker) {
    const missing = step === null ? missingStarter(handler) : missingWorker('workflows', handler)
    return { reason: 'noWorker', text: `${what} waits: ${missing}.` }
  }
  if (active.isLater) {
    const text =
      attempts > 0
        ? `${what} is tried again at ${time}, after ${attempts} failed attempts.`
        : `${what} begins at ${time}.`
    return { reason: 'notDue', text, ...at }
  }
  return { reason: 'queued', text: `${what} is due since ${since.toISOString()} and waits for a worker to take it.` }
}

/** A start whose input is not checked yet has the definition in its lane. */
function missingStarter(lane: string): string {
  if (lane === ROOT) return 'no live worker runs workflows: start one with hf.run'
  const workflow = lane.slice(ROOT.length + 1)
  return `no live worker has the definition ${workflow}, whose schema checks its input: hf.register it in a worker`
}

function nameOf({ step, compensates }: ActiveStep): string {
  if (step === null) return 'The start of the instance'
  return compensates ? `The compensation of step \`${step}\`` : `Step \`${step}\``
}
