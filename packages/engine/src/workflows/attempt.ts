// One attempt of a step or of its compensation: inquires first where an earlier call may have been made, calls the
// handler within its time limit, and says what is known of the outcome. `executor.ts` of workflows calls it with a
// claimed step. A lost lease must not be recorded as a failure, and an unknown outcome never as a refusal.

import { type Answered, inquire as inquireAbout } from '../kernel/calls/inquiry.js'
import type { LazySignal } from '../kernel/calls/limited.js'
import { HoldfastError } from '../kernel/errors.js'
import { classifyFailure, type Failure } from '../kernel/failure/classify.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import type { Runtime } from '../kernel/model/runtime.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { InquireContext, StepContext } from './context.js'
import type { Call } from './decide/decision.js'
import type { InstanceEvent, KnownOfCall } from './decide/instance-event.js'
import { unknownOutcome } from './decide/outcome.js'
import type { Payload } from './decide/state.js'
import type { CallSettings, WorkflowDefinition } from './definition/definition.js'
import type { WorkflowEngine } from './engine.js'
import type { ClaimedStep } from './queries/claim-steps.js'
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
 * One attempt of a step, or of its compensation: asks first where that is due, calls the handler, and returns what is known of
 * the call afterwards. Nothing where the handler was aborted and ignored its signal.
 */
export function createAttempt(parts: AttemptParts) {
  const { db, codec, events, hooks, logger } = parts

  return async function attempt(
    call: StepCall,
    called: Called,
    handler: RegisteredStepHandler,
  ): Promise<InstanceEvent | undefined> {
    if (called.inquire === undefined) return callHandler(call, called, handler)
    const asked = await inquire(call, called, handler)
    if (typeof asked === 'object' && 'done' in asked) return done(call, called, asked.done)
    if (couldNotAsk(call, asked)) return interrupted(call, called)
    if (asked === 'notDone' && called.inquire === 'first') return callHandler(call, called, handler, { notDone: true })
    const problem = asked === 'notDone' ? 'it was not done, and no call is left' : asked.problem
    const failure =
      asked === 'notDone' ? exhausted(problem) : unknownOutcome(`an earlier call was made, and ${problem}`)
    return failed(call, called, failure, asked === 'notDone' ? 'notDone' : 'notBegun')
  }

  async function callHandler(
    call: StepCall,
    called: Called,
    handler: RegisteredStepHandler,
    before: { readonly notDone?: boolean } = {},
  ): Promise<InstanceEvent | undefined> {
    try {
      // Schema and hooks are user code too: they share the handler's time limit.
      const answer = await call.outcome(async (over) => {
        const input = await decode(call.item, handler)
        if (hooks.any && !call.item.compensates) await hooks.stepStarting(hooked(call, called, input))
        call.began = true
        return handler.handle(input, contextOf(call, called, handler, { input, over }))
      }, called.settings.timeout ?? HANDLER_LIMIT)
      if (answer === ABANDONED) return call.began ? undefined : releasedCall(call, called)
      return done(call, called, answer)
    } catch (error) {
      const failure = failureOf(error)
      // Not done before and refused now: it was not done at all.
      if (failure.refused && before.notDone) return failed(call, called, failure, 'notDone')
      return afterFailure(call, called, handler, failure)
    }
  }

  async function afterFailure(
    call: StepCall,
    called: Called,
    handler: RegisteredStepHandler,
    failure: Failure,
  ): Promise<InstanceEvent> {
    if (call.interrupted && !failure.refused) {
      if (!call.began) return releasedCall(call, called)
      return interrupted(call, called)
    }
    if (!call.began) return failed(call, called, failure, 'notBegun')
    if (!called.settings.nonIdempotent || failure.refused) return failed(call, called, failure)
    // The result of an inquiry about a call that still runs would be outdated at once.
    const asked = call.running ? { problem: 'the handler still runs' } : await inquire(call, called, handler)
    if (asked === 'notDone') return failed(call, called, failure, 'notDone')
    if ('done' in asked) return done(call, called, asked.done)
    if (couldNotAsk(call, asked)) return interrupted(call, called)
    return failed(
      call,
      called,
      unknownOutcome(`the call failed with ${failure.code} (${failure.message}), and ${asked.problem}`),
    )
  }

  async function inquire(call: StepCall, called: Called, handler: RegisteredStepHandler): Promise<Answered> {
    const ask = handler.inquire
    if (ask === undefined) return { problem: 'its handler has no `inquire`' }
    return inquireAbout(async (over) => ask(await decode(call.item, handler), inquiryContext(call, called, over)), {
      limitMs: called.settings.timeout ?? INQUIRE_LIMIT,
      patienceMs: parts.inquireForMs,
      // Aborted or not, the outcome of the call has to be known: only the worker's own end stops the inquiry.
      signal: () => call.lease.signal,
    })
  }

  /** A worker that stops could not inquire: the next worker does. */
  function couldNotAsk(call: StepCall, asked: Answered): boolean {
    return call.interrupted && asked !== 'notDone'
  }

  function done(call: StepCall, called: Called, output: unknown): InstanceEvent {
    const { step } = called
    if (call.item.compensates) return { type: 'compensated', step }
    try {
      return { type: 'completed', step, output: encode(output) }
    } catch (error) {
      return failed(call, called, failureOf(error))
    }
  }

  function decode({ input, inputNotes, type }: ClaimedStep, { inputSchema }: RegisteredStepHandler): unknown {
    const value = codec.decode({ json: input, notes: inputNotes })
    return inputSchema === undefined ? value : parseWith(inputSchema, value, `the input of the handler ${type}`)
  }

  function encode(answer: unknown): Payload {
    try {
      return codec.encode(answer ?? null, { at: 'output' })
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      const options = { code: 'OUTPUT_NOT_ENCODABLE', cause: error }
      throw new OutputNotEncodable(`the output cannot be stored: ${problem}`, options)
    }
  }

  function sharedContext({ item }: StepCall, { definition, step, compensation, settings }: Called) {
    return {
      instanceId: item.workflowId,
      workflow: definition.name,
      version: definition.version,
      stepName: step,
      compensation,
      idempotencyKey: `${item.workflowId}/${compensation ?? step}`,
      metadata: settings.metadata ?? {},
      logger,
    }
  }

  function inquiryContext(call: StepCall, called: Called, over: LazySignal): InquireContext {
    return {
      ...sharedContext(call, called),
      get signal() {
        return over.signal
      },
    }
  }

  function contextOf(
    call: StepCall,
    called: Called,
    { inquire: canInquire }: RegisteredStepHandler,
    { input, over }: { readonly input: unknown; readonly over: LazySignal },
  ): StepContext {
    const { item } = call
    const { step, compensation, settings, attempt: number } = called
    const maxAttempts = settings.nonIdempotent && canInquire === undefined ? 1 : settings.maxAttempts
    return {
      ...sharedContext(call, called),
      originalKey: compensation === null ? null : `${item.workflowId}/${step}`,
      attempt: number,
      maxAttempts,
      isLastAttempt: number >= maxAttempts,
      input,
      get output() {
        if (!item.compensates || item.outcome !== 'completed') return undefined
        return item.output === null ? null : codec.decode({ json: item.output, notes: item.outputNotes })
      },
      outcome: item.compensates ? item.outcome : null,
      get signal() {
        return over.signal
      },
      transaction: (work) => completeWithin(call, called, work),
    }
  }

  /**
   * The handler's rows and the step's completion in one transaction. The step is read first, so that a worker that has lost it
   * does nothing, and locked last, with the instance: until then heartbeats continue, and a cancel reaches the handler.
   */
  async function completeWithin<T>(
    call: StepCall,
    { step, settings }: Called,
    work: Parameters<StepContext['transaction']>[0],
  ): Promise<T> {
    const { item, lease } = call
    const { workflowId, number, epoch, compensates } = item
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
        const event: InstanceEvent = compensates
          ? { type: 'compensated', step }
          : { type: 'completed', step, output: encode(result) }
        const claim = claimOf(item, step)
        return { value: result, applied: await events.applyWithin(tx, { id: workflowId, event, claim }) }
      },
      { userCode },
    )
    call.finished = true
    events.committed(applied)
    return value as T
  }
}

const kindOf = ({ item }: StepCall) => (item.compensates ? ('compensation' as const) : ('step' as const))

const interrupted = (call: StepCall, { step }: Called): InstanceEvent => ({
  type: 'interrupted',
  step,
  kind: kindOf(call),
})

function failed(call: StepCall, { step }: Called, failure: Failure, known?: KnownOfCall): InstanceEvent {
  const type = call.item.compensates ? 'compensation_failed' : 'failed'
  return { type, step, failure, ...(known === undefined ? {} : { known }) }
}

/** It was aborted, or its worker was stopped, before the handler was called. */
const releasedCall = (call: StepCall, { step }: Called): InstanceEvent => ({
  type: 'released',
  step,
  kind: kindOf(call),
  because: 'stopping',
})

function failureOf(error: unknown): Failure {
  // Input that does not fit the handler's schema, or cannot be read: the same the next time.
  const permanent =
    error instanceof HoldfastError && (error.code === 'HF_INVALID_DATA' || error.code === 'HF_NOT_DECODABLE')
  const failure = classifyFailure(error, { unknown: permanent ? 'permanent' : 'transient' })
  if (!(error instanceof OutputNotEncodable)) return failure
  const { refused: _, ...ofUnknownOutcome } = failure
  return ofUnknownOutcome
}

function exhausted(problem: string): Failure {
  const error = new PermanentError(`the worker died during the last call; ${problem}`, {
    code: 'ATTEMPTS_EXHAUSTED_BY_CRASH',
  })
  return classifyFailure(error, { unknown: 'permanent' })
}

const hooked = ({ item }: StepCall, { definition, step, attempt }: Called, input: unknown) => ({
  instanceId: item.workflowId,
  workflow: definition.name,
  version: definition.version,
  step,
  attempt,
  input,
})

const holdStatement = {
  name: 'workflows.hold-step',
  text: `
    select number
    from holdfast.workflow_step
    where workflow_id = $1 and number = $2 and lease_epoch = $3 and in_flight`,
}
