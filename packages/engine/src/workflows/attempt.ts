// One attempt of a step or of its compensation: inquires first where an earlier call may have been made, calls the
// handler within its time limit, and says what is known of the outcome. `executor.ts` of workflows calls it with a
// claimed step. A lost lease must not be recorded as a failure, and an unknown outcome never as a refusal.

import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import { classifyFailure, type Failure } from '../kernel/failure/classify.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import {
  type Answered,
  inquire as inquireAbout,
  type LazySignal,
  type Queryable,
  type Runtime,
} from '../kernel/model/index.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { InquireContext, StepContext } from './context.js'
import type { Call } from './decide/decision.js'
import type { InstanceEvent, KnownOfCall } from './decide/instance-event.js'
import { unknownOutcome } from './decide/outcome.js'
import type { Payload } from './decide/state.js'
import type { CallSettings, WorkflowDefinition } from './definition/definition.js'
import type { WorkflowEngine } from './engine.js'
import type { RegisteredStepHandler } from './registry.js'
import { ABANDONED, type StepCall } from './step-call.js'
import { claimOf } from './store/stored-instance.js'

export type AttemptParts = Runtime & WorkflowEngine

/** What is called, and for which step of which definition. */
export interface Called extends Pick<Call, 'attempt' | 'inquire'> {
  readonly definition: WorkflowDefinition
  readonly step: string
  /** The name of the compensation, where it is one. */
  readonly compensation: string | null
  readonly settings: CallSettings
}

/** Default limits of user code: a step says its own with `timeout`. */
const HANDLER_LIMIT = 3_600_000
const TRANSACTION_LIMIT = 30_000
const INQUIRE_LIMIT = 30_000

/** The handler returned: its effect has taken place, although its output cannot be stored. */
class OutputNotEncodable extends PermanentError {}

/**
 * One attempt of a step, or of its compensation: inquires first where that is due, calls the handler, and returns what is known of
 * the call afterwards. Nothing where the handler was aborted and ignored its signal.
 */
export function attemptStep(
  { db, codec, events, hooks, inquireForMs, logger }: AttemptParts,
  call: StepCall,
  called: Called,
  handler: RegisteredStepHandler,
): Promise<InstanceEvent | undefined> {
  const { item, lease } = call
  const { definition, step, compensation, settings } = called
  const { workflowId, number, epoch, compensates } = item
  const kind = compensates ? 'compensation' : 'step'
  const interrupted: InstanceEvent = { type: 'interrupted', step, kind }
  // It was aborted, or its worker was stopped, before the handler was called.
  const released: InstanceEvent = { type: 'released', step, kind, because: 'stopping' }
  return called.inquire === undefined ? callHandler() : inquireFirst(called.inquire)

  async function inquireFirst(how: 'first' | 'only'): Promise<InstanceEvent | undefined> {
    const asked = await inquire()
    if (typeof asked === 'object' && 'done' in asked) return done(asked.done)
    if (couldNotAsk(asked)) return interrupted
    if (asked !== 'notDone') return failed(unknownOutcome(`an earlier call was made, and ${asked.problem}`), 'notBegun')
    return how === 'first' ? callHandler({ notDone: true }) : failed(exhausted(), 'notDone')
  }

  async function callHandler(before: { readonly notDone?: boolean } = {}): Promise<InstanceEvent | undefined> {
    try {
      // Schema and hooks are user code too: they share the handler's time limit.
      const output = await call.outcome(async (over) => {
        const input = await decode()
        if (hooks.any && !compensates) await hooks.stepStarting(hooked(input))
        call.began = true
        return handler.handle(input, contextOf(input, over))
      }, settings.timeout ?? HANDLER_LIMIT)
      if (output === ABANDONED) return call.began ? undefined : released
      return done(output)
    } catch (error) {
      const failure = failureOf(error)
      // Not done before and refused now: it was not done at all.
      return failure.refused && before.notDone ? failed(failure, 'notDone') : afterFailure(failure)
    }
  }

  async function afterFailure(failure: Failure): Promise<InstanceEvent> {
    if (call.interrupted && !failure.refused) return call.began ? interrupted : released
    if (!call.began) return failed(failure, 'notBegun')
    if (!settings.nonIdempotent || failure.refused) return failed(failure)
    // The result of an inquiry about a call that still runs would be outdated at once.
    const asked = call.running ? { problem: 'the handler still runs' } : await inquire()
    if (asked === 'notDone') return failed(failure, 'notDone')
    if ('done' in asked) return done(asked.done)
    if (couldNotAsk(asked)) return interrupted
    return failed(unknownOutcome(`the call failed with ${failure.code} (${failure.message}), and ${asked.problem}`))
  }

  async function inquire(): Promise<Answered> {
    const ask = handler.inquire
    if (ask === undefined) return { problem: 'its handler has no `inquire`' }
    return inquireAbout(async (over) => ask(await decode(), inquiryContext(over)), {
      limitMs: settings.timeout ?? INQUIRE_LIMIT,
      patienceMs: inquireForMs,
      // Aborted or not, the outcome of the call has to be known: only the worker's own end stops the inquiry.
      signal: () => lease.signal,
    })
  }

  /** A worker that stops could not inquire: the next worker does. */
  function couldNotAsk(asked: Answered): boolean {
    return call.interrupted && asked !== 'notDone'
  }

  function done(output: unknown): InstanceEvent {
    try {
      return succeeded(output)
    } catch (error) {
      return failed(failureOf(error))
    }
  }

  function succeeded(output: unknown): InstanceEvent {
    return compensates ? { type: 'compensated', step } : { type: 'completed', step, output: encode(codec, output) }
  }

  function failed(failure: Failure, known?: KnownOfCall): InstanceEvent {
    const type = compensates ? 'compensation_failed' : 'failed'
    return { type, step, failure, ...(known === undefined ? {} : { known }) }
  }

  function decode(): unknown {
    const value = codec.decode({ json: item.input, notes: item.inputNotes })
    const { inputSchema } = handler
    return inputSchema === undefined ? value : parseWith(inputSchema, value, `the input of the handler ${item.type}`)
  }

  function hooked(input: unknown) {
    const { name: workflow, version } = definition
    return { instanceId: workflowId, workflow, version, step, attempt: called.attempt, input }
  }

  function sharedContext() {
    return {
      instanceId: workflowId,
      workflow: definition.name,
      version: definition.version,
      stepName: step,
      compensation,
      idempotencyKey: `${workflowId}/${compensation ?? step}`,
      metadata: settings.metadata ?? {},
      logger,
    }
  }

  function inquiryContext(over: LazySignal): InquireContext {
    return {
      ...sharedContext(),
      get signal() {
        return over.signal
      },
    }
  }

  function contextOf(input: unknown, over: LazySignal): StepContext {
    const maxAttempts = settings.nonIdempotent && handler.inquire === undefined ? 1 : settings.maxAttempts
    return {
      ...sharedContext(),
      originalKey: compensation === null ? null : `${workflowId}/${step}`,
      attempt: called.attempt,
      maxAttempts,
      isLastAttempt: called.attempt >= maxAttempts,
      input,
      get output() {
        if (!compensates || item.outcome !== 'completed') return undefined
        return item.output === null ? null : codec.decode({ json: item.output, notes: item.outputNotes })
      },
      outcome: compensates ? item.outcome : null,
      get signal() {
        return over.signal
      },
      transaction: completeWithin,
    }
  }

  /**
   * The handler's rows and the step's completion in one transaction. The step is read first, so that a worker that has lost it
   * does nothing, and locked last, with the instance: until then heartbeats continue, and a cancel reaches the handler.
   */
  async function completeWithin<T>(work: (tx: Queryable) => Promise<T>): Promise<T> {
    const lost = () => new HoldfastError('HF_LEASE_LOST', { id: `${workflowId}/${step}`, epoch: String(epoch) })
    // A handler that continues after its time limit: the attempt has been decided without it.
    if (call.ended) throw lost()
    const limitMs = settings.timeout ?? TRANSACTION_LIMIT
    const userCode = { limitMs, idleMs: Math.max(1, lease.remaining()), signal: lease.signal }
    const { value, applied } = await db.transaction(
      async (tx) => {
        const held = await tx.run(holdStatement, [workflowId, number, epoch])
        if (held.length === 0 || call.ended) throw lost()
        const result = await work(tx)
        if (call.ended) throw lost()
        const reported = { id: workflowId, event: succeeded(result), claim: claimOf(item, step) }
        return { value: result, applied: await events.applyWithin(tx, reported) }
      },
      { userCode },
    )
    call.finished = true
    events.committed(applied)
    return value
  }
}

function encode(codec: Codec, output: unknown): Payload {
  try {
    return codec.encode(output ?? null, { at: 'output' })
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    const options = { code: 'OUTPUT_NOT_ENCODABLE', cause: error }
    throw new OutputNotEncodable(`the output cannot be stored: ${problem}`, options)
  }
}

function failureOf(error: unknown): Failure {
  // Input that does not fit the handler's schema, or cannot be read: the same the next time.
  const permanent =
    error instanceof HoldfastError && (error.code === 'HF_INVALID_DATA' || error.code === 'HF_NOT_DECODABLE')
  const failure = classifyFailure(error, { unknown: permanent ? 'permanent' : 'transient' })
  if (!(error instanceof OutputNotEncodable)) return failure
  const { refused: _, ...ofUnknownOutcome } = failure
  return ofUnknownOutcome
}

function exhausted(): Failure {
  const problem = 'the worker died during the last call; it was not done, and no call is left'
  const error = new PermanentError(problem, { code: 'ATTEMPTS_EXHAUSTED_BY_CRASH' })
  return classifyFailure(error, { unknown: 'permanent' })
}

const holdStatement = {
  name: 'workflows.hold-step',
  text: `
    select number
    from holdfast.workflow_step
    where workflow_id = $1 and number = $2 and lease_epoch = $3 and in_flight`,
}
