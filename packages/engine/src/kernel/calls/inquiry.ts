import { describeThrown } from '../failure/thrown.js'
import { describe } from '../validation/describe.js'
import { callLimited, type LazySignal } from './limited.js'

/**
 * What `inquire` returns about a call of unknown outcome: it was done, with this result; it was not done, so that it may
 * be made; or that is still unknown.
 */
export type Inquiry<Result> = { readonly done: Result } | 'notDone' | 'unknown'

/** The result of an inquiry. A problem means that the outcome stays unknown, and that a person has to find out. */
export type Answered = { readonly done: unknown } | 'notDone' | Unanswered

interface Unanswered {
  readonly problem: string
  readonly cause?: unknown
}

export interface InquiryLimits {
  /** The time limit of one call of `inquire`. */
  readonly limitMs: number
  /** How long `inquire` is repeated while the outcome is unknown. */
  readonly patienceMs: number
  /** Ends the inquiry: the worker stops, or has lost its lease. */
  readonly signal: () => AbortSignal
}

const FIRST_PAUSE = 1_000

/**
 * Finds out the outcome of a call from the external system. An `inquire` that fails, or does not know yet, is called again for a while, in
 * growing intervals: a bank that is down for ten seconds, or shows its payments late, should not cost a person's time. It
 * changes nothing, so it may still run beside the next call.
 */
export async function inquire(ask: (over: LazySignal) => unknown, limits: InquiryLimits): Promise<Answered> {
  const until = performance.now() + limits.patienceMs
  for (let pauseMs = FIRST_PAUSE; ; pauseMs *= 2) {
    const { answer, final } = await inquireOnce(ask, limits)
    if (final || limits.signal().aborted || performance.now() + pauseMs > until) return answer
    await pause(pauseMs, limits.signal())
    if (limits.signal().aborted) return answer
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, milliseconds)
    signal.addEventListener('abort', end)
  })
}

async function inquireOnce(
  ask: (over: LazySignal) => unknown,
  { limitMs, signal }: InquiryLimits,
): Promise<{ readonly answer: Answered; readonly final: boolean }> {
  try {
    const answer = await callLimited({ limitMs, graceMs: 0, around: () => [signal()] }, ask)
    if (answer === 'notDone') return { answer, final: true }
    if (answer === 'unknown') {
      return { answer: { problem: 'its `inquire` does not know whether it had its effect' }, final: false }
    }
    if (typeof answer === 'object' && answer !== null && 'done' in answer) {
      return { answer: { done: answer.done }, final: true }
    }
    const problem = `its \`inquire\` must answer { done: result }, 'notDone' or 'unknown', and answered ${describe(answer)}`
    return { answer: { problem }, final: true }
  } catch (cause) {
    return { answer: { problem: `its \`inquire\` failed: ${describeThrown(cause).message}`, cause }, final: false }
  }
}
