// The `ctx` object that user code gets. `executor.ts` makes one per execution. Each method checks its arguments, adds a
// call to the execution and returns its promise; it performs nothing itself. Calls on the context of an execution that
// is over must never settle and never throw.

import type { CommandDefinition } from '../../commands/index.js'
import { createCodec } from '../../kernel/codec/codec.js'
import { type Duration, LONGEST_TIMER, parseDuration } from '../../kernel/duration/duration.js'
import { HoldfastError } from '../../kernel/errors.js'
import { checkKey } from '../../kernel/ids/key.js'
import { checkName } from '../../kernel/ids/name.js'
import { retryCountOption, retryOption } from '../../kernel/retry/retry-option.js'
import { normalizeRetryPolicy } from '../../kernel/retry/retry-policy.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import {
  booleanOption,
  checkOptions,
  choiceOption,
  durationOption,
  functionOption,
  textOption,
} from '../../kernel/validation/options.js'
import type { ProcessContext } from '../context.js'
import { type DefinedProcess, definedProcess } from '../define.js'
import { unknownResponse } from '../refused.js'
import type { Attempting, Attempts, CallSpec, RemoteSpec, StepSpec, Undoing } from './call-spec.js'
import { createDeterminism } from './determinism.js'
import type { Execution } from './execution.js'
import { failWhoCalled } from './inside-call.js'

const requests = createCodec()
const NEVER = new Promise<never>(() => undefined)
const CALLED_TOO_LATE =
  'ctx was called after its process was suspended or had ended, by code that waits for something else than ctx: the call does nothing'

/** The `ctx` of `execute`: every method adds a call to the execution and returns its promise. */
export function contextFor(execution: Execution): ProcessContext {
  const { item, parts, lease, state } = execution
  const { id, key, version, generation } = item
  let chance: ReturnType<typeof createDeterminism> | undefined
  let signal: AbortSignal | undefined

  function determinism(): ReturnType<typeof createDeterminism> {
    chance ??= createDeterminism(`${id} ${generation}`)
    return chance
  }

  function call(name: string, spec: CallSpec): Promise<never> {
    // Calls on a released context never settle: nothing would record them.
    if (execution.released) parts.logger.warn({ id, type: item.type, call: name }, CALLED_TOO_LATE)
    if (execution.released || state.unwinding || state.continuation) return NEVER
    if (!state.data.guard.open) return outOfPlace(execution, name)
    return state.calls.add(checkCallName(name), spec).promise as Promise<never>
  }

  return {
    id,
    key,
    version,
    logger: parts.logger,
    get signal() {
      signal ??= AbortSignal.any([execution.cancelSignal, lease.signal])
      return signal
    },
    step: (name, work, options) => call(name, stepSpec(`step ${name}`, work, options)),
    sideEffect(name, work, options = {}) {
      const where = `sideEffect ${name}`
      checkOptions(where, options, ['timeout'])
      return call(name, { ...stepSpec(where, work, options), kind: 'SIDE_EFFECT' })
    },
    transaction(name, work, options = {}) {
      const where = `transaction ${name}`
      functionOption(where, 'work', work)
      const { timeout } = checkOptions(where, options, ['retry', 'timeout', ...UNDOING_OPTIONS])
      return call(name, {
        kind: 'TRANSACTION',
        work,
        timeoutMs: timeLimit(where, timeout),
        ...attempting(where, options),
      })
    },
    wait(name, condition, options = {}) {
      functionOption(`wait ${name}`, 'condition', condition)
      return call(name, { kind: 'WAIT', condition, ...waiting(`wait ${name}`, options) })
    },
    event(name: string, response: string, options = {}) {
      if (!parts.definition.responses.has(response)) {
        throw unknownResponse(parts.definition.name, response)
      }
      return call(name, { kind: 'EVENT', response, ...waiting(`event ${name}`, options) })
    },
    sleep: (name, until) => call(name, { kind: 'SLEEP', ...sleeping(`sleep ${name}`, until) }),
    command: (name, command, data, options = {}) =>
      call(name, commandSpec(execution, name, command as CommandDefinition, data, options)),
    child: (name, process, state, options = {}) =>
      call(name, childSpec(execution, name, definitionOf(name, process), state, options)),
    now: () => new Date(state.time),
    uuid: () => determinism().uuid(),
    random: () => determinism().random(),
    continueAsNew(next, options = {}) {
      const given = checkOptions('continueAsNew', options, ['keepEffects'])
      const keepEffects = booleanOption('continueAsNew', 'keepEffects', given.keepEffects, { default: false })
      if (!execution.released) execution.apply({ kind: 'CONTINUE', continuation: { state: next, keepEffects } })
      execution.wakeUp.fire()
      return NEVER
    },
  }
}

/**
 * A replay would not find such a call: it lets user code run until it has nothing more to do, and waits for nothing else.
 * Not thrown: the caller may be a timer, whose errors would end the program.
 */
function outOfPlace(execution: Execution, name: unknown): Promise<never> {
  const error = new HoldfastError('HF_CALL_OUT_OF_PLACE', { name: String(name) })
  if (!execution.state.ending) execution.fail(error)
  failWhoCalled(execution, error)
  execution.wakeUp.fire()
  return NEVER
}

const UNDOING_OPTIONS = ['onFailure', 'compensate', 'compensateIf', 'compensateRetry', 'compensateTimeout'] as const

const STEP_OPTIONS = ['retry', 'timeout', 'rateLimit', 'atMostOnce', 'inquire', 'request', ...UNDOING_OPTIONS] as const

function stepSpec(where: string, work: unknown, options: unknown): StepSpec {
  functionOption(where, 'work', work)
  const given = checkOptions(where, options, STEP_OPTIONS)
  if (given.inquire !== undefined && given.atMostOnce !== true) {
    throw invalidOption(where, 'inquire', 'is never asked: the step does not have `atMostOnce: true`')
  }
  return {
    kind: 'STEP',
    run: work as StepSpec['run'],
    timeoutMs: timeLimit(where, given.timeout),
    rateLimit: rateLimitOption(where, given.rateLimit),
    atMostOnce: booleanOption(where, 'atMostOnce', given.atMostOnce, { default: false }),
    inquire: functionOption<NonNullable<StepSpec['inquire']>>(where, 'inquire', given.inquire, {
      default: undefined,
    }),
    request: toRequest(where, given.request),
    ...attempting(where, given),
  }
}

function timeLimit(where: string, timeout: unknown, option = 'timeout'): number {
  return durationOption(where, option, timeout, { min: '1ms', max: LONGEST_TIMER, default: '30s' })
}

interface AttemptOptions {
  readonly retry?: unknown
  readonly onFailure?: unknown
  readonly compensate?: unknown
  readonly compensateIf?: unknown
  readonly compensateRetry?: unknown
  readonly compensateTimeout?: unknown
}

function attempting(where: string, options: AttemptOptions): Attempting {
  return {
    retry: attempts(where, 'retry', options.retry, 1),
    ...undoing(where, options),
  }
}

const DOUBLING = normalizeRetryPolicy({ kind: 'exponential', base: '1s' })
/** A compensation is tried three times unless the call says otherwise. */
const COMPENSATION_ATTEMPTS = 3

function attempts(where: string, option: string, value: unknown, unlessGiven: number): Attempts {
  const { maxAttempts = unlessGiven, policy = DOUBLING } = retryOption(where, option, value)
  return { maxAttempts, policy }
}

function undoing(where: string, options: AttemptOptions): Undoing {
  const { onFailure, compensate, compensateIf } = options
  return {
    compensate: functionOption<NonNullable<Undoing['compensate']>>(where, 'compensate', compensate, {
      default: undefined,
    }),
    compensateIf: choiceOption(where, 'compensateIf', compensateIf, ['possible', 'completed', 'attempted'], {
      default: 'possible',
    }),
    compensateRetry: attempts(where, 'compensateRetry', options.compensateRetry, COMPENSATION_ATTEMPTS),
    compensateTimeoutMs: timeLimit(where, options.compensateTimeout, 'compensateTimeout'),
    onFailure: choiceOption(where, 'onFailure', onFailure, ['tsq', 'throw'], { default: 'tsq' }),
  }
}

function waiting(where: string, options: unknown) {
  const given = checkOptions(where, options, ['timeout', 'onTimeout'])
  return {
    timeoutMs: durationOption(where, 'timeout', given.timeout, { default: undefined }),
    onTimeout: choiceOption(where, 'onTimeout', given.onTimeout, ['tsq', 'compensate', 'fail', 'return'], {
      default: 'tsq',
    }),
  }
}

function sleeping(where: string, until: Duration | Date): { readonly forMs: number } | { readonly until: number } {
  if (!(until instanceof Date)) return { forMs: parseDuration(until, where) }
  if (!Number.isNaN(until.getTime())) return { until: until.getTime() }
  throw invalidOption(where, 'until', 'must be a valid date')
}

const REMOTE_OPTIONS = ['timeout', 'onTimeout', ...UNDOING_OPTIONS] as const

function remote(where: string, options: AttemptOptions & { timeout?: unknown; onTimeout?: unknown }) {
  const { timeout, onTimeout } = options
  // Not `return`: user code would go on as if nothing were under way.
  choiceOption(where, 'onTimeout', onTimeout, ['tsq', 'compensate', 'fail'], { default: 'tsq' })
  return { ...waiting(where, { timeout, onTimeout }), ...undoing(where, options) }
}

/** Longer than anything waits: what is withheld is cancelled at once, and this is only for a crash in between. */
const WITHHELD = '365d'

function commandSpec(
  { item, parts }: Execution,
  name: string,
  command: CommandDefinition,
  data: unknown,
  options: object,
): RemoteSpec {
  const where = `command ${name}`
  const given = checkOptions(where, options, [...REMOTE_OPTIONS, 'retry'])
  const maxAttempts = retryCountOption(where, given.retry)
  const retry = maxAttempts === undefined ? {} : { retry: { maxAttempts } }
  const process = { id: item.id, domain: parts.definition.domain }
  return {
    kind: 'COMMAND',
    begin: (id) => parts.remotes.sendCommand(process, command, data, { id, ...retry }),
    withhold: (id) => parts.remotes.sendCommand(process, command, data, { id, ...retry, delay: WITHHELD }),
    cancel: (id) => parts.remotes.cancelCommand(process, command, id),
    ...remote(where, given),
  }
}

function definitionOf(name: string, process: object): DefinedProcess {
  const defined = definedProcess(process)
  if (defined) return defined
  throw invalidOption(`child ${name}`, 'process', 'must be made with defineProcess')
}

function childSpec(
  { item, parts, state: { calls }, now }: Execution,
  name: string,
  process: DefinedProcess,
  state: unknown,
  options: object,
): RemoteSpec {
  const where = `child ${name}`
  const given = checkOptions(where, options, [...REMOTE_OPTIONS, 'key'])
  const key = given.key === undefined ? {} : { key: checkKey(where, given.key) }
  const parent = { id: item.id, call: calls.nextId(name) }
  return {
    kind: 'CHILD',
    begin: (id) => parts.remotes.startChild(parent, process, state, { id, ...key }),
    withhold: (id) =>
      parts.remotes.startChild(parent, process, state, {
        id,
        ...key,
        startAt: new Date(now() + parseDuration(WITHHELD, where)),
      }),
    cancel: (id, compensate) => parts.remotes.cancelChild(item.id, id, compensate),
    ...remote(where, given),
  }
}

/** Plain JSON for people who read the record. A value that cannot be stored is refused here, not when it is written. */
function toRequest(where: string, request: unknown): unknown {
  return request === undefined ? undefined : JSON.parse(requests.encode(request, { at: `${where}: request` }).json)
}

function rateLimitOption(where: string, value: unknown): StepSpec['rateLimit'] {
  if (value === undefined) return undefined
  const given = checkOptions(`${where}: rateLimit`, value, ['key', 'maxWait'])
  return {
    key: textOption(`${where}: rateLimit`, 'key', given.key),
    maxWaitMs: durationOption(`${where}: rateLimit`, 'maxWait', given.maxWait, { max: LONGEST_TIMER, default: '5s' }),
  }
}

function checkCallName(name: unknown): string {
  const text = checkName('a call of ctx', 'name', name)
  if (!text.startsWith('@')) return text
  throw invalidOption('a call of ctx', 'name', 'must not begin with @')
}
