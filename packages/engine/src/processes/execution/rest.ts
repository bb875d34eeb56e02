import { HoldfastError } from '../../kernel/errors.js'
import { PermanentError } from '../../kernel/failure/failure-errors.js'
import type { RecordedFailure } from '../history.js'
import type { Rest } from '../queries/write-processes.js'
import type { EndStatus, ProcessStatus } from '../states.js'
import type { Call } from './calls.js'
import { toRecorded, trouble, verdictOn } from './decisions.js'
import type { Execution } from './execution.js'

type Resting = Pick<Rest, 'status'> & Partial<Rest>

/** What every rest says, whatever it is for. */
function restAs(execution: Execution, resting: Resting): Rest {
  const { state, item, parts, cancel } = execution
  return {
    dueAt: null,
    ended: false,
    heard: state.heard,
    heardCancel: cancel !== null,
    seen: state.seen,
    state: encodedState(execution),
    ...(item.limited ? { limited: true } : {}),
    ...(parts.inStarter && resting.dueAt ? { wakes: true } : {}),
    ...resting,
  }
}

/** Waiting for something outside, or for the time of the next attempt, whichever comes first (K-01). */
export function restWaiting(execution: Execution): Rest {
  const { calls, item } = execution
  const retrying = calls.with('retrying')
  const waiting = calls.with('waiting')
  const earliest = (times: readonly (number | undefined)[]) => {
    const known = times.filter((time) => time !== undefined)
    return known.length === 0 ? undefined : Math.min(...known)
  }
  const nextRetryAt = earliest(retrying.map(({ nextAt }) => nextAt))
  const waitTimeoutAt = earliest(waiting.map(({ nextAt }) => nextAt))
  return restAs(execution, {
    status: retrying.length > 0 ? 'WAITING_FOR_RETRY' : 'WAITING_FOR_ASYNC',
    dueAt: earliest([nextRetryAt, waitTimeoutAt, item.deadline ?? undefined]) ?? null,
    waitingFor: [...retrying, ...waiting].map(({ id }) => id).join(', '),
    waitTimeoutAt,
    nextRetryAt,
  })
}

/** Given back: due at once, for a worker that is not being stopped. */
export function restStopping(execution: Execution): Rest {
  return restAs(execution, { status: execution.unwinding ? 'COMPENSATING' : 'PENDING', dueAt: execution.now() })
}

export function restCompensating(execution: Execution, dueAt: number): Rest {
  const error = execution.unwinding?.error
  return restAs(execution, { status: 'COMPENSATING', dueAt, nextRetryAt: dueAt, error })
}

/** Not due: the end of one of these calls comes as a response. */
export function restBeforeUndoing(execution: Execution, open: readonly Call[]): Rest {
  const waitingFor = open.map(({ id }) => id).join(', ')
  return restAs(execution, { status: 'COMPENSATING', waitingFor, error: execution.unwinding?.error })
}

export function restInTrouble(execution: Execution, error: RecordedFailure): Rest {
  return restAs(execution, { status: 'WAITING_FOR_TSQ', error })
}

/** Left for other workers, whose code may fit; the state here is not to be trusted. */
export function restMismatched(execution: Execution, error: RecordedFailure, delayMs: number): Rest {
  const status: ProcessStatus = execution.item.status
  return restAs(execution, {
    status: status === 'EXECUTING' ? 'PENDING' : status,
    dueAt: execution.now() + delayMs,
    state: undefined,
    mismatch: true,
    error,
  })
}

/** The end. Responses that came and were never met are in the state that readers see. */
export function restEnded(
  execution: Execution,
  status: EndStatus,
  end: { readonly value?: unknown; readonly error?: RecordedFailure | undefined; readonly undone?: boolean },
): Rest {
  bringUpToDate(execution)
  return restAs(execution, {
    status,
    ended: true,
    ...(end.undone ? { undone: true } : {}),
    ...('value' in end ? { result: encodedResult(execution, end.value) } : {}),
    error: end.error,
  })
}

function bringUpToDate({ state, parts, item }: Execution): void {
  try {
    state.applyUpTo(state.heard)
  } catch (error) {
    parts.logger.warn({ err: error, id: item.id }, 'a response that nobody waits for could not be applied to the state')
  }
}

/**
 * A fresh history that begins with this state (P-24). It is what `execute` works with, the output of the schema: parsed once
 * more, a schema that transforms would get its own output as input.
 */
export function restContinuing(execution: Execution, state: unknown): Rest {
  const { codec } = execution.parts
  return restAs(execution, {
    status: 'PENDING',
    dueAt: execution.now(),
    state: codec.encode(state, { at: 'state' }),
    continues: execution.state.leftOver(),
  })
}

function encodedState({ state, parts, item }: Execution): Rest['state'] {
  try {
    return state.encode()
  } catch (error) {
    // Readers keep the last one; what it means to the process is for whoever rests it (see `checkState`).
    parts.logger.warn({ err: error, id: item.id }, 'the state cannot be stored')
    return undefined
  }
}

/** A state that cannot be stored is the process's own failure: it rests in troubleshooting, not as if all were well. */
export function checkState(execution: Execution): void {
  try {
    execution.state.encode()
  } catch (error) {
    execution.verdict ??= trouble(
      error instanceof HoldfastError ? error.code : 'HF_NOT_ENCODABLE',
      toRecorded(execution.classify(error)),
    )
  }
}

function encodedResult(execution: Execution, value: unknown): Rest['result'] {
  if (value === undefined) return undefined
  try {
    return execution.parts.codec.encode(value, { at: 'the result of the process' })
  } catch (error) {
    throw new PermanentError(error instanceof Error ? error.message : String(error), {
      code: error instanceof HoldfastError ? error.code : 'HF_NOT_ENCODABLE',
      cause: error,
    })
  }
}

export function failureOf(execution: Execution, error: unknown) {
  return verdictOn(toRecorded(execution.classify(error)))
}
