// Builds the last write of an execution, for every reason why it may end: waiting, stopping, compensating,
// troubleshooting, mismatch, end, continue-as-new. `executor.ts` and `entry-check.ts` use it. It decides nothing; it
// only collects what the record, readers and the next claim need to know.

import { HoldfastError } from '../../kernel/errors.js'
import type { RecordedFailure } from '../history.js'
import type { Suspension } from '../queries/write-processes.js'
import type { EndStatus, ProcessStatus } from '../states.js'
import { storable } from './attempt.js'
import type { Call } from './calls.js'
import { toRecorded, trouble } from './decisions.js'
import type { Execution } from './execution.js'

type SuspensionFields = Pick<Suspension, 'status'> & Partial<Suspension>

/** The fields that every suspension has. */
function suspendAs(execution: Execution, fields: SuspensionFields): Suspension {
  const { item, parts } = execution
  const { data, cancel } = execution.state
  return {
    dueAt: null,
    ended: false,
    received: data.received,
    receivedCancel: cancel !== null,
    seen: data.seen,
    state: 'state' in fields ? fields.state : encodedState(execution),
    ...(item.limited ? { limited: true } : {}),
    ...(parts.inStarter && fields.dueAt ? { wakes: true } : {}),
    ...fields,
  }
}

/** Waiting for something outside, or for the time of the next attempt, whichever comes first. */
export function suspendWaiting(execution: Execution, state: Suspension['state']): Suspension {
  const { item } = execution
  const { calls } = execution.state
  const retrying = calls.with('retrying')
  const waiting = calls.with('waiting')
  const earliest = (times: readonly (number | undefined)[]) => {
    const known = times.filter((time) => time !== undefined)
    return known.length === 0 ? undefined : Math.min(...known)
  }
  const nextRetryAt = earliest(retrying.map(({ nextAt }) => nextAt))
  const waitTimeoutAt = earliest(waiting.map(({ nextAt }) => nextAt))
  return suspendAs(execution, {
    status: retrying.length > 0 ? 'WAITING_FOR_RETRY' : 'WAITING_FOR_ASYNC',
    dueAt: earliest([nextRetryAt, waitTimeoutAt, item.deadline ?? undefined]) ?? null,
    waitingFor: [...retrying, ...waiting].map(({ id }) => id).join(', '),
    waitTimeoutAt,
    nextRetryAt,
    state,
  })
}

/** Released: due at once, for a worker that does not stop. */
export function suspendStopping(execution: Execution, state: Suspension['state']): Suspension {
  const status = execution.state.unwinding ? 'COMPENSATING' : 'PENDING'
  return suspendAs(execution, { status, dueAt: execution.now(), state })
}

export function suspendCompensating(execution: Execution, dueAt: number): Suspension {
  const error = execution.state.unwinding?.error
  return suspendAs(execution, { status: 'COMPENSATING', dueAt, nextRetryAt: dueAt, error })
}

/** Not due: the end of one of these calls comes as a response. */
export function suspendBeforeCompensating(execution: Execution, open: readonly Call[]): Suspension {
  const waitingFor = open.map(({ id }) => id).join(', ')
  return suspendAs(execution, { status: 'COMPENSATING', waitingFor, error: execution.state.unwinding?.error })
}

export function suspendInTrouble(execution: Execution, error: RecordedFailure): Suspension {
  return suspendAs(execution, { status: 'WAITING_FOR_TSQ', error })
}

/** Left for other workers, whose code may fit; the state here is not to be trusted. */
export function suspendMismatched(execution: Execution, error: RecordedFailure, delayMs: number): Suspension {
  const status: ProcessStatus = execution.item.status
  return suspendAs(execution, {
    status: status === 'EXECUTING' ? 'PENDING' : status,
    dueAt: execution.now() + delayMs,
    mismatch: true,
    error,
  })
}

/** The end of the process. Responses that were not applied yet are applied to the state that readers see. */
export function suspendEnded(
  execution: Execution,
  status: EndStatus,
  end: { readonly value?: unknown; readonly error?: RecordedFailure | undefined; readonly undone?: boolean },
): Suspension {
  bringUpToDate(execution)
  return suspendAs(execution, {
    status,
    ended: true,
    ...(end.undone ? { undone: true } : {}),
    ...('value' in end ? { result: encodedResult(execution, end.value) } : {}),
    error: end.error,
  })
}

function bringUpToDate({ state: { data }, parts, item }: Execution): void {
  try {
    data.applyUpTo(data.received)
  } catch (error) {
    parts.logger.warn({ err: error, id: item.id }, 'a response that no wait needs could not be applied to the state')
  }
}

/**
 * A fresh history that begins with this state. It is what `execute` works with, the output of the schema: parsed once
 * more, a schema that transforms would get its own output as input.
 */
export function suspendContinuing(execution: Execution, state: unknown): Suspension {
  const { codec } = execution.parts
  return suspendAs(execution, {
    status: 'PENDING',
    dueAt: execution.now(),
    state: codec.encode(state, { at: 'state' }),
    continues: execution.state.data.leftOver(),
  })
}

function encodedState({ state, parts, item }: Execution): Suspension['state'] {
  try {
    return state.data.encode()
  } catch (error) {
    // Readers see the last stored state; `checkState` decides what this means to the process.
    parts.logger.warn({ err: error, id: item.id }, 'the state cannot be stored')
    return undefined
  }
}

/** A state that cannot be stored is a failure of a process that would wait: it goes to troubleshooting. */
export function checkState(execution: Execution): Suspension['state'] {
  try {
    return execution.state.data.encode()
  } catch (error) {
    const code = error instanceof HoldfastError ? error.code : 'HF_NOT_ENCODABLE'
    execution.decide(trouble(code, toRecorded(execution.classify(error))))
    return undefined
  }
}

function encodedResult({ parts: { codec } }: Execution, value: unknown): Suspension['result'] {
  return value === undefined ? undefined : storable(() => codec.encode(value, { at: 'the result of the process' }))
}
