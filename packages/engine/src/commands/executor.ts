import type { Batcher } from '../kernel/batching/batcher.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { formatDuration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { classifyFailure, type Failure } from '../kernel/failure/classify.js'
import { PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { newId } from '../kernel/ids/id.js'
import type { Logger } from '../kernel/logger.js'
import type { Reports } from '../kernel/reports/reports.js'
import type { RetryPolicy } from '../kernel/retry/retry-policy.js'
import { durationOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { Lease } from '../kernel/work/leases.js'
import type { CommandContext } from './context.js'
import { LONGEST_TIMER } from './define.js'
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
  readonly logger: Logger
  readonly reports: Reports
  readonly extend: (lease: Lease<ReceivedCommand>, milliseconds: number) => Promise<void>
}

/** A received command's way: decode, run, decide, record. */
export function createExecutor(options: ExecutorOptions) {
  const { db, domain, queue, registry, codec, finishes, logger } = options

  return async function execute(command: ReceivedCommand, lease: Lease<ReceivedCommand>): Promise<void> {
    const handler = registry.find(domain, command.type)
    const maxAttempts = command.maxAttempts ?? handler?.definition.maxAttempts ?? options.maxAttempts
    const call = new CommandCall(command, lease, maxAttempts)
    const began = performance.now()
    if (command.epoch === 1) options.reports.started({ model: 'commands', domain, type: command.type })
    try {
      const end = await attempt(call, handler)
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

  /** Calls the handler; answers how to end the attempt, unless the handler's own transaction has ended it. */
  async function attempt(call: CommandCall, handler: RegisteredHandler | undefined): Promise<AttemptEnd | undefined> {
    try {
      if (!handler) throw new PermanentError(`no handler for ${call.command.type}`, { code: 'NO_HANDLER' })
      if (call.attempt > call.maxAttempts) throw usedUp(call)
      const data = await decode(call.command, handler)
      const result = await run(call, handler, data)
      return call.finished ? undefined : completed(await checkResult(handler, result))
    } catch (error) {
      const failure = classifyFailure(error, {
        unknown: 'transient',
        ...(handler?.definition.classifyError ? { classify: handler.definition.classifyError } : {}),
      })
      // A handler that heeds the signal of a worker that stops: interrupted, no attempt that failed (K-26).
      if (call.lease.interrupted && !failure.refused) return undefined
      return failed(call, handler, failure)
    }
  }

  /** What we sent ourselves was parsed when it entered; what comes from elsewhere is parsed here. */
  function decode(command: ReceivedCommand, { definition }: RegisteredHandler): unknown {
    return orPermanent('INVALID_DATA', () => {
      const data = codec.decode({ json: command.data, notes: command.notes })
      return command.version === definition.version
        ? data
        : parseWith(definition.dataSchema, data, `receive ${domain}/${command.type}`)
    })
  }

  function run(call: CommandCall, handler: RegisteredHandler, data: unknown): unknown {
    const timeoutMs = handler.definition.timeoutMs ?? options.timeoutMs
    return timeoutMs === undefined
      ? handler.handle(data, contextOf(call, undefined))
      : runWithin(timeoutMs, call, handler, data)
  }

  async function runWithin(
    timeoutMs: number,
    call: CommandCall,
    { handle }: RegisteredHandler,
    data: unknown,
  ): Promise<unknown> {
    const limit = startTimeLimit(timeoutMs)
    try {
      return await Promise.race([handle(data, contextOf(call, limit.signal)), limit.over])
    } finally {
      limit.clear()
    }
  }

  function contextOf(call: CommandCall, timeUp: AbortSignal | undefined): CommandContext {
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
        return timeUp ? AbortSignal.any([lease.signal, timeUp]) : lease.signal
      },
      extend: async (duration) =>
        options.extend(lease, durationOption('extend', 'duration', duration, { min: '1ms', max: LONGEST_TIMER })),
      transaction: (work) => completeWithin(call, work),
    }
  }

  /** The handler's rows and the command's completion in one transaction; the message is locked first (C-06). */
  async function completeWithin<T>(call: CommandCall, work: Parameters<CommandContext['transaction']>[0]): Promise<T> {
    const { command } = call
    const lost = () => new HoldfastError('HF_LEASE_LOST', { id: command.commandId, epoch: String(command.epoch) })
    // A handler that goes on after its time was up: the attempt has been decided without it.
    if (call.ended) throw lost()
    const value = await db.transaction(async (tx) => {
      const [held] = await tx.run<{ held: boolean }>(holdStatement, [queue, command.id, command.epoch])
      if (!held?.held) throw lost()
      const result = await work(tx)
      const end = completed(await checkResult(registry.find(domain, command.type), result))
      const [answer] = await finishCommands(tx, queue, domain, [writeOf(call, end)])
      if (answer !== 'done') throw lost()
      return result
    })
    call.finished = true
    return value as T
  }

  function checkResult(handler: RegisteredHandler | undefined, result: unknown): unknown {
    const { resultSchema, type } = handler?.definition ?? {}
    return orPermanent('INVALID_RESULT', () => parseWith(resultSchema, result, `the result of ${domain}/${type}`))
  }

  function completed(result: unknown): AttemptEnd {
    try {
      const { json, notes } = codec.encode(result)
      return { outcome: 'COMPLETED', json, notes }
    } catch (error) {
      throw new PermanentError(
        `the result cannot be stored: ${error instanceof Error ? error.message : String(error)}`,
        {
          code: 'RESULT_NOT_ENCODABLE',
          cause: error,
        },
      )
    }
  }

  function failed(call: CommandCall, handler: RegisteredHandler | undefined, failure: Failure): AttemptEnd {
    const { kind, code, message, fingerprint, stack } = failure
    const policy = handler?.definition.retry ?? options.retry
    const decision = decideFailedAttempt(failure, call.attempt, call.maxAttempts, policy)
    return { ...decision, failure: { kind, code, message, fingerprint, stack } }
  }

  function record(call: CommandCall, end: AttemptEnd): Promise<void> {
    return finishes.write(writeOf(call, end))
  }
}

/** What data or a schema throws is not mended by trying again. A promise comes back only from asynchronous schemas. */
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

class CommandCall {
  readonly command: ReceivedCommand
  readonly lease: Lease<ReceivedCommand>
  readonly maxAttempts: number
  /** Completed by its own transaction. */
  finished = false
  /** What becomes of it is decided; whatever its handler still does comes too late. */
  ended = false

  constructor(command: ReceivedCommand, lease: Lease<ReceivedCommand>, maxAttempts: number) {
    this.command = command
    this.lease = lease
    this.maxAttempts = maxAttempts
  }

  /** Which attempt this is: receives that were interrupted, or lost beside other work, are not counted (K-26). */
  get attempt(): number {
    return this.command.epoch - this.command.uncounted
  }
}

/** Ends a call that takes too long: the handler hears of it by its signal, and is no longer waited for. */
function startTimeLimit(milliseconds: number) {
  const controller = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = new TransientError(`the handler took longer than ${formatDuration(milliseconds)}`, {
        code: 'TIMEOUT',
      })
      // First: a handler that ends upon its signal must not overtake the verdict.
      reject(error)
      controller.abort(error)
    }, milliseconds)
  })
  return { signal: controller.signal, over, clear: () => clearTimeout(timer) }
}

const holdStatement = { name: 'commands.hold', text: 'select holdfast.hold_command($1, $2, $3) as held' }

function writeOf({ command }: CommandCall, end: AttemptEnd): FinishWrite {
  return { messageId: command.id, attempt: command.epoch, commandId: command.commandId, token: newId(), end }
}

function usedUp({ attempt, maxAttempts }: CommandCall): PermanentError {
  return new PermanentError(
    `its ${maxAttempts} attempts were begun and never ended: its worker died each time while nothing else ran beside it (${attempt - 1} so far)`,
    { code: 'ATTEMPTS_EXHAUSTED_BY_CRASH' },
  )
}
