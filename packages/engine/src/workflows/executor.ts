import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import { classifyFailure, type Failure } from '../kernel/failure/classify.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { Lease } from '../kernel/work/leases.js'
import type { Aborts } from './aborts.js'
import type { StepContext } from './context.js'
import type { Occurrence } from './decide/occurrence.js'
import type { Payload } from './decide/state.js'
import { type CallSettings, compensationOf, type WorkflowDefinition } from './definition/definition.js'
import type { Definitions } from './definitions.js'
import type { Happened, Happenings } from './happenings.js'
import type { Hooks } from './hooks.js'
import { type ClaimedStep, ROOT } from './queries/claim-steps.js'
import type { RegisteredStepHandler, StepHandlers } from './registry.js'
import { ABANDONED, StepCall } from './step-call.js'
import type { StepClaim } from './store/stored-instance.js'

export interface StepExecutorParts {
  readonly db: Database
  readonly codec: Codec
  readonly definitions: Definitions
  readonly happenings: Happenings
  readonly handlers: StepHandlers
  readonly hooks: Hooks
  readonly aborts: Aborts
  readonly abortGraceMs: number
  readonly logger: Logger
  readonly metrics: Metrics
}

/** The worker was stopped during the call, and the handler heeded its signal. */
const INTERRUPTED = Symbol('interrupted')

/** What is called, and for which step of which definition. */
interface Called {
  readonly definition: WorkflowDefinition
  readonly step: string
  /** The name of the compensation, where it is one. */
  readonly compensation: string | null
  readonly settings: CallSettings
  readonly attempt: number
}

/** A claimed step's way: ask whether it is to be called, call, report. What becomes of it the engine decides. */
export function createStepExecutor(parts: StepExecutorParts) {
  const { db, codec, definitions, happenings, handlers, hooks, aborts, logger, metrics } = parts
  const tellOfMissing = oncePer(60_000)

  return async function execute(item: ClaimedStep, lease: Lease<ClaimedStep>): Promise<void> {
    try {
      if (item.type === ROOT) {
        await happenings.report({ id: item.workflowId, occurrence: { type: 'started' } })
        return
      }
      const called = await begin(item)
      if (called) await run(new StepCall(item, lease, parts.abortGraceMs), called)
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== 'HF_LEASE_LOST') throw error
      logger.warn({ id: item.id, handler: item.type, epoch: item.epoch }, 'lease lost: the call changes nothing')
    }
  }

  /** A claim that is not simply the next call of a step is decided first: the call before it was lost, or it is not wanted. */
  async function begin(item: ClaimedStep): Promise<Called | undefined> {
    const definition = await definitions.byId(item.definitionId)
    const step = definition.steps[item.number]
    if (step === undefined) throw new Error(`workflow ${definition.name} has no step ${item.number}`)
    const compensation = item.compensates ? compensationOf(step) : undefined
    const settings = item.compensates ? compensation : step.type === 'task' ? step : undefined
    if (settings === undefined) throw new Error(`step ${step.name} of workflow ${definition.name} has nothing to call`)
    const called = { definition, step: step.name, compensation: compensation?.name ?? null, settings }
    if (item.fresh) return { ...called, attempt: item.attempts }
    const kind = item.compensates ? 'compensation' : 'step'
    const uncounted = item.lost !== undefined && !item.lost.counted
    const { decision } = await report(item, called.step, { type: 'claimed', step: step.name, kind, uncounted })
    return decision.call === null ? undefined : { ...called, attempt: decision.call.attempt }
  }

  function report(item: ClaimedStep, step: string, occurrence: Occurrence): Promise<Happened> {
    return happenings.report({ id: item.workflowId, occurrence, claim: claimOf(item, step) })
  }

  async function run(call: StepCall, called: Called): Promise<void> {
    const { item } = call
    const { step } = called
    const kind = item.compensates ? 'compensation' : 'step'
    const handler = handlers.find(item.type)
    if (!handler) {
      metrics.count('steps_given_back', { model: 'workflows', type: item.type })
      const quiet = !tellOfMissing(item.type)
      await report(item, step, { type: 'given_back', step, kind, because: 'handler_missing', quiet })
      return
    }
    const began = performance.now()
    const occurrence = await attempt(call, called, handler)
    call.ended = true
    const ended = occurrence === INTERRUPTED ? 'interrupted' : (occurrence?.type ?? 'abandoned')
    const outcome = call.finished ? 'completed' : ended
    const labels = { model: 'workflows', type: item.type, outcome }
    metrics.observe('step_milliseconds', labels, performance.now() - began)
    // The loop ends its lease, and the next worker knows that the outcome is unknown.
    if (call.finished || occurrence === INTERRUPTED) return
    // As if its worker had died: what it did is unknown.
    await report(item, step, occurrence ?? { type: 'claimed', step, kind })
  }

  /** Calls the handler; answers what to report, or nothing where the handler did not heed its signal. */
  async function attempt(
    call: StepCall,
    called: Called,
    handler: RegisteredStepHandler,
  ): Promise<Occurrence | typeof INTERRUPTED | undefined> {
    const { step } = called
    const { compensates } = call.item
    const leave = aborts.join(call)
    try {
      // Schema and hooks are the user's too: they share the handler's time.
      const answer = await call.outcome(async () => {
        const input = await decode(call.item, handler)
        if (hooks.any && !compensates) await hooks.stepStarting(hooked(call, called, input))
        return handler.handle(input, contextOf(call, called, input))
      }, called.settings.timeout)
      if (answer === ABANDONED) return undefined
      if (compensates) return { type: 'compensated', step }
      return { type: 'completed', step, output: encode(answer) }
    } catch (error) {
      const failure = failureOf(error)
      // A handler that heeds the signal of a worker that stops: interrupted, no attempt that failed (K-26).
      if (call.lease.interrupted && !failure.refused) return INTERRUPTED
      return compensates ? { type: 'compensation_failed', step, failure } : { type: 'failed', step, failure }
    } finally {
      leave()
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
      throw new PermanentError(`the output cannot be stored: ${problem}`, {
        code: 'OUTPUT_NOT_ENCODABLE',
        cause: error,
      })
    }
  }

  function contextOf(call: StepCall, called: Called, input: unknown): StepContext {
    const { item } = call
    const { definition, step, compensation, settings, attempt: number } = called
    const maxAttempts = settings.nonIdempotent ? 1 : settings.maxAttempts
    return {
      instanceId: item.workflowId,
      workflow: definition.name,
      version: definition.version,
      stepName: step,
      compensation,
      idempotencyKey: `${item.workflowId}/${compensation ?? step}`,
      attempt: number,
      maxAttempts,
      isLastAttempt: number >= maxAttempts,
      input,
      get output() {
        return item.output === null ? undefined : codec.decode({ json: item.output, notes: item.outputNotes })
      },
      metadata: settings.metadata ?? {},
      logger,
      get signal() {
        return call.signal
      },
      transaction: (work) => completeWithin(call, called, work),
    }
  }

  /**
   * The handler's rows and the step's completion in one transaction. The step is looked at first, so that whoever has lost it
   * does nothing, and locked last, with the instance: until then heartbeats go on, and a cancel reaches the handler.
   */
  async function completeWithin<T>(
    call: StepCall,
    { step }: Called,
    work: Parameters<StepContext['transaction']>[0],
  ): Promise<T> {
    const { item } = call
    const { workflowId, number, epoch, compensates } = item
    const lost = () => new HoldfastError('HF_LEASE_LOST', { id: `${workflowId}/${step}`, epoch: String(epoch) })
    // A handler that goes on after its time was up: the attempt has been decided without it.
    if (call.ended) throw lost()
    const { value, happened } = await db.transaction(async (tx) => {
      const held = await tx.run(holdStatement, [workflowId, number, epoch])
      if (held.length === 0 || call.ended) throw lost()
      const result = await work(tx)
      if (call.ended) throw lost()
      const occurrence: Occurrence = compensates
        ? { type: 'compensated', step }
        : { type: 'completed', step, output: encode(result) }
      const claim = claimOf(item, step)
      return { value: result, happened: await happenings.reportWithin(tx, { id: workflowId, occurrence, claim }) }
    })
    call.finished = true
    hooks.happened(happened)
    return value as T
  }

  function failureOf(error: unknown): Failure {
    // Input that does not fit the handler's schema, or cannot be read: not mended by trying again.
    const permanent =
      error instanceof HoldfastError && (error.code === 'HF_INVALID_DATA' || error.code === 'HF_NOT_DECODABLE')
    return classifyFailure(error, { unknown: permanent ? 'permanent' : 'transient' })
  }
}

/** Whether it is time again to say something about a name. */
function oncePer(milliseconds: number): (name: string) => boolean {
  const said = new Map<string, number>()
  return (name) => {
    const now = performance.now()
    if (now - (said.get(name) ?? Number.NEGATIVE_INFINITY) < milliseconds) return false
    said.set(name, now)
    return true
  }
}

const claimOf = ({ compensates, epoch, fresh, attempts }: ClaimedStep, step: string): StepClaim => ({
  step,
  kind: compensates ? 'compensation' : 'step',
  epoch,
  fresh,
  attempts,
})

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
