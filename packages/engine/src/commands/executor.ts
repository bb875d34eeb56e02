import type { Codec } from '../kernel/codec/codec.js'
import { LONGEST_TIMER } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { classifyFailure, type Failure } from '../kernel/failure/classify.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { newId } from '../kernel/ids/id.js'
import {
  type Batcher,
  callLimited,
  type Database,
  type Executor,
  type LazySignal,
  type Lease,
  type Logger,
  outcomeOfFailure,
  type Reports,
} from '../kernel/model/index.js'
import type { RetryPolicy } from '../kernel/retry/retry-policy.js'
import { durationOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import { CommandCall } from './command-call.js'
import type { CommandContext } from './context.js'
import { completeWithin } from './handler-transaction.js'
import { inquire, OutcomeUnknown } from './inquire.js'
import { type AttemptEnd, type FinishWrite, finishCommands } from './queries/finish-commands.js'
import type { ReceivedCommand } from './queries/receive-commands.js'
import type { HandlerRegistry, RegisteredHandler } from './registry.js'
import { reportAttempt } from './report.js'
import { decideFailedAttempt } from './states.js'

export interface ExecutorOptions {
  readonly db: Database
  readonly domain: string
  readonly queue: string
  readonly registry: HandlerRegistry
  readonly codec: Codec
  readonly finishes: Batcher<FinishWrite, void>
  readonly retry: RetryPolicy
  readonly maxAttempts: number
  readonly timeoutMs: number | undefined
  readonly leaseMs: number
  /** How long a handler that was told to stop is awaited, before the next attempt may begin. */
  readonly abortGraceMs: number
  readonly inquireForMs: number
  readonly logger: Logger
  readonly reports: Reports
  readonly extend: (lease: Lease<ReceivedCommand>, milliseconds: number) => Promise<void>
}

/** Executes a received command: decode, inquire if an earlier call may have been made, call, decide, record. */
export function createExecutor(options: ExecutorOptions) {
  const { db, domain, queue, registry, codec, finishes, logger, leaseMs, abortGraceMs: graceMs } = options

  /** How a handler's own transaction ends the attempt: together with what it wrote. */
  const transactions = {
    db,
    queue,
    leaseMs,
    graceMs,
    async finish(tx: Executor, result: unknown, call: CommandCall) {
      const [answer] = await finishCommands(tx, queue, domain, [writeOf(call, await completed(call.handler, result))])
      return answer === 'done'
    },
  }

  const limitOf = (handler: RegisteredHandler | undefined) => handler?.definition.timeoutMs ?? options.timeoutMs

  const ask = (call: CommandCall, data: unknown) =>
    inquire(call, data, { limitMs: limitOf(call.handler), patienceMs: options.inquireForMs, logger })

  const failureOf = (handler: RegisteredHandler | undefined, error: unknown) =>
    classifyFailure(error, {
      unknown: 'transient',
      ...(handler?.definition.classifyError ? { classify: handler.definition.classifyError } : {}),
    })

  return async function execute(command: ReceivedCommand, lease: Lease<ReceivedCommand>): Promise<void> {
    const handler = registry.find(`${domain}/${command.type}`)
    const maxAttempts = command.maxAttempts ?? handler?.definition.maxAttempts ?? options.maxAttempts
    const call = new CommandCall(command, lease, handler, maxAttempts)
    const began = performance.now()
    if (command.epoch === 1) options.reports.started({ model: 'commands', domain, type: command.type })
    try {
      const end = await attempt(call)
      call.ended = true
      if (end && !call.finished) await record(call, end)
      const ended = call.finished ? ({ outcome: 'COMPLETED' } as const) : end
      if (ended) reportAttempt(options.reports, domain, command, ended, performance.now() - began)
    } catch (error) {
      if (error instanceof HoldfastError && error.code === 'HF_LEASE_LOST') {
        return logger.warn(
          { commandId: command.commandId, attempt: command.epoch },
          'lease lost: the attempt changes nothing',
        )
      }
      throw error
    }
  }

  /** Calls the handler; returns how to end the attempt, unless the handler's own transaction has ended it. */
  async function attempt(call: CommandCall): Promise<AttemptEnd | undefined> {
    const { command, handler } = call
    try {
      if (!handler) throw new PermanentError(`no handler for ${command.type}`, { code: 'NO_HANDLER' })
      const usedUp = call.attempt > call.maxAttempts
      if (usedUp && !call.unknown) throw attemptsUsedUp(call)
      if (call.unknown && call.diesAlone) throw new OutcomeUnknown(call.diesAlone)
      const data = await decode(command, handler)
      if (call.unknown) {
        const asked = await ask(call, data)
        if (asked !== 'notDone') return await completed(handler, asked.done)
        call.unknown = false
        if (usedUp) throw attemptsUsedUp(call)
      }
      return await callHandler(call, handler, data)
    } catch (error) {
      if (error instanceof OutcomeUnknown) return unknown(call, error, undefined)
      return failed(call, failureOf(handler, error))
    }
  }

  async function callHandler(
    call: CommandCall,
    handler: RegisteredHandler,
    data: unknown,
  ): Promise<AttemptEnd | undefined> {
    let result: unknown
    call.unknown = call.atMostOnce
    call.mayHaveActed = true
    try {
      result = await run(call, handler, data)
    } catch (error) {
      const failure = failureOf(handler, error)
      // What its own transaction has completed stays completed.
      if (call.finished) return undefined
      // The handler stopped at the signal of a worker that stops: interrupted, not a failed attempt (K-26).
      if (call.lease.interrupted && !failure.refused) return undefined
      call.mayHaveActed = outcomeOfFailure(failure) === 'unknown'
      call.unknown = call.atMostOnce && call.mayHaveActed
      if (!call.unknown) return failed(call, failure)
      // Its worker stops, or has lost it: the next worker inquires.
      return call.lease.aborted ? undefined : afterUnknown(call, handler, data, failure)
    }
    // A result that cannot be stored is permanent, but the call was made: it stays one that must not be repeated.
    return call.finished ? undefined : completed(handler, result)
  }

  /** Inquires about a call that must not be repeated, whatever it threw, before anything else is decided. */
  async function afterUnknown(
    call: CommandCall,
    handler: RegisteredHandler,
    data: unknown,
    failure: Failure,
  ): Promise<AttemptEnd | undefined> {
    try {
      const asked = await ask(call, data)
      return asked === 'notDone' ? failed(call, failure) : await completed(handler, asked.done)
    } catch (error) {
      if (error instanceof OutcomeUnknown) return unknown(call, error, failure)
      return failed(call, failureOf(handler, error))
    }
  }

  /** A worker that stops, or has lost the command, could not inquire: the next worker does. */
  function unknown(call: CommandCall, error: OutcomeUnknown, because: Failure | undefined): AttemptEnd | undefined {
    return call.lease.aborted ? undefined : failed(call, error.toFailure(because))
  }

  /** Data that this library sent was parsed when it was sent; data of other clients is parsed here. */
  function decode(command: ReceivedCommand, { definition }: RegisteredHandler): unknown {
    return orPermanent('INVALID_DATA', () => {
      const data = codec.decode({ json: command.data, notes: command.notes })
      return command.version === definition.version
        ? data
        : parseWith(definition.dataSchema, data, `receive ${domain}/${command.type}`)
    })
  }

  function run(call: CommandCall, handler: RegisteredHandler, data: unknown): Promise<unknown> {
    const limits = { limitMs: limitOf(handler), graceMs, around: () => [call.lease.signal] }
    return callLimited(limits, async (over) => {
      call.running = true
      try {
        return await handler.handle(data, contextOf(call, over))
      } finally {
        call.running = false
      }
    })
  }

  function contextOf(call: CommandCall, over: LazySignal): CommandContext {
    const { command, lease, maxAttempts } = call
    return {
      domain,
      type: command.type,
      commandId: command.commandId,
      correlationId: command.correlationId,
      batchId: command.batchId,
      messageId: command.id,
      attempt: call.attempt,
      maxAttempts,
      isLastAttempt: call.attempt >= maxAttempts,
      idempotencyKey: command.commandId,
      logger,
      get signal() {
        return over.signal
      },
      extend: async (duration) =>
        options.extend(lease, durationOption('extend', 'duration', duration, { min: '1ms', max: LONGEST_TIMER })),
      transaction: (work) => completeWithin(transactions, call, over, work),
    }
  }

  /** A promise only where the schema of the result is asynchronous. */
  function checkResult(handler: RegisteredHandler | undefined, result: unknown): unknown {
    const { resultSchema, type } = handler?.definition ?? {}
    return orPermanent('INVALID_RESULT', () => parseWith(resultSchema, result, `the result of ${domain}/${type}`))
  }

  async function completed(handler: RegisteredHandler | undefined, result: unknown): Promise<AttemptEnd> {
    const checked = await checkResult(handler, result)
    try {
      const { json, notes } = codec.encode(checked)
      return { outcome: 'COMPLETED', json, notes }
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      const code = 'RESULT_NOT_ENCODABLE'
      throw new PermanentError(`the result cannot be stored: ${problem}`, { code, cause: error })
    }
  }

  function failed(call: CommandCall, failure: Failure): AttemptEnd {
    const { kind, code, message, fingerprint, stack } = failure
    const policy = call.handler?.definition.retry ?? options.retry
    const decision = decideFailedAttempt(failure, call.attempt, call.maxAttempts, policy)
    return {
      ...decision,
      inquiry: call.inquiry,
      effect: call.effect,
      failure: { kind, code, message, fingerprint, stack },
    }
  }

  function record(call: CommandCall, end: AttemptEnd): Promise<void> {
    return finishes.write(writeOf(call, end))
  }
}

/** A retry does not help where the data or a schema throws. A promise comes back only from asynchronous schemas. */
function orPermanent(code: string, parse: () => unknown): unknown {
  const permanent = (error: unknown) =>
    new PermanentError(error instanceof Error ? error.message : String(error), { code, cause: error })
  try {
    const parsed = parse()
    if (!(parsed instanceof Promise)) return parsed
    return parsed.catch((error: unknown) => {
      throw permanent(error)
    })
  } catch (error) {
    throw permanent(error)
  }
}

function writeOf({ command }: CommandCall, end: AttemptEnd): FinishWrite {
  return { messageId: command.id, attempt: command.epoch, commandId: command.commandId, token: newId(), end }
}

function attemptsUsedUp({ attempt, maxAttempts }: CommandCall): PermanentError {
  return new PermanentError(
    `its ${maxAttempts} attempts were begun and never ended: its worker died each time while nothing else ran beside it (${attempt - 1} so far)`,
    { code: 'ATTEMPTS_EXHAUSTED_BY_CRASH' },
  )
}
