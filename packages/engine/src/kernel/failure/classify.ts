import type { Json } from '../codec/type.js'
import { describe } from '../validation/describe.js'
import { storableText } from '../validation/storable-text.js'
import { type FailureKind, failureKind } from './failure-errors.js'
import { fingerprint, messageShape } from './fingerprint.js'
import { describeThrown, originOf, read, readText, shorten, stackOf, toDetails } from './thrown.js'

/** A failure as data: it can be stored, shown, grouped and searched, whatever was thrown. */
export interface Failure {
  readonly kind: FailureKind
  readonly code: string
  readonly message: string
  /** The message without ids, numbers and quoted text: the name of a group of failures. */
  readonly shape: string
  /** The same for all failures of one code and shape. */
  readonly fingerprint: string
  /**
   * The error says itself, by its class or through the definition's classifier, that the call was refused and had no
   * effect. Never set by default: an unknown error proves nothing.
   */
  readonly refused?: true
  readonly details?: Json
  /** Where it was thrown: the error's own stack without its message, at most 4 kB. */
  readonly stack?: string
  /** The chain of `cause`s, nearest first. */
  readonly causes?: readonly string[]
  /** Why the definition's classifier could not be used: it threw, or returned an unknown kind. */
  readonly classifierProblem?: string
}

export interface ClassifyOptions {
  /** The kind of an unknown error: transient in commands and workflows, permanent in processes. */
  readonly unknown: 'transient' | 'permanent'
  /** The definition's classifier for errors that have no kind of their own. */
  readonly classify?: (error: unknown) => 'transient' | 'business' | 'permanent' | undefined
}

/**
 * Turns anything thrown into a failure; never throws. An error that says its kind is believed, then the definition's
 * classifier is asked; timeouts and refused rate limits are transient; the rest is what `unknown` says.
 *
 * @example
 * classifyFailure(new BusinessError('declined', { code: 'CARD_DECLINED' }), { unknown: 'transient' })
 * // { kind: 'BUSINESS', code: 'CARD_DECLINED', message: 'declined', … }
 */
export function classifyFailure(error: unknown, options: ClassifyOptions): Failure {
  const { kind, code, refused, details, classifierProblem } = verdictOn(error, options)
  const { message, causes } = describeThrown(error)
  const stack = stackOf(error)
  const shownCode = shorten(storableText(code), longestCode)
  const shape = messageShape(message)
  return {
    kind,
    code: shownCode,
    message,
    shape,
    fingerprint: fingerprint(shownCode, shape),
    ...(refused ? { refused: true } : {}),
    ...(details === undefined ? {} : { details }),
    ...(stack === undefined ? {} : { stack }),
    ...(causes.length === 0 ? {} : { causes }),
    ...(classifierProblem === undefined ? {} : { classifierProblem }),
  }
}

const longestCode = 200

interface Verdict {
  readonly kind: FailureKind
  readonly code: string
  readonly refused?: boolean
  readonly details?: Json | undefined
  readonly classifierProblem?: string
}

function verdictOn(error: unknown, { classify, unknown }: ClassifyOptions): Verdict {
  const own = toKind(read(error, failureKind))
  if (own !== undefined) {
    const details = toDetails(read(error, 'details'))
    return { kind: own, code: ownCode(error, own), refused: own !== 'TRANSIENT', details }
  }
  const opinion = classify === undefined ? {} : ask(classify, error)
  if (opinion.kind !== undefined) {
    const { kind } = opinion
    return { kind, code: ownCode(error, kind), refused: kind !== 'TRANSIENT', details: originOf(error) }
  }
  return { ...byDefault(error, unknown === 'transient' ? 'TRANSIENT' : 'PERMANENT'), ...opinion }
}

const ownCode = (error: unknown, kind: FailureKind): string => readText(error, 'code') ?? `${kind}_ERROR`

function ask(
  classify: (error: unknown) => unknown,
  error: unknown,
): { kind: FailureKind } | { kind?: never; classifierProblem?: string } {
  try {
    const answer = classify(error)
    const kind = toKind(answer)
    if (kind !== undefined) return { kind }
    return answer === undefined ? {} : { classifierProblem: `it answered ${describe(answer)}` }
  } catch (problem) {
    // The error it was asked about is what counts; its own goes along.
    return { classifierProblem: `it threw: ${describeThrown(problem).message}` }
  }
}

function toKind(value: unknown): FailureKind | undefined {
  switch (value) {
    case 'TRANSIENT':
    case 'transient':
      return 'TRANSIENT'
    case 'BUSINESS':
    case 'business':
      return 'BUSINESS'
    case 'PERMANENT':
    case 'permanent':
      return 'PERMANENT'
    default:
      return undefined
  }
}

/** Refused by a rate limit, unreachable, or no response in time: statuses of our errors that are transient. */
const passingStatuses: readonly unknown[] = [429, 503, 504]

/** Mistakes in the program, of which each repetition may commit half of the work once more. */
const mistakes: readonly unknown[] = ['HF_TRANSACTION_CONTROL', 'HF_TRANSACTION_ENDED']

function byDefault(error: unknown, unknown: FailureKind): Verdict {
  // By name, not by class: there may be two copies of the package in one program.
  if (read(error, 'name') === 'HoldfastError') {
    const passes = passingStatuses.includes(read(error, 'status'))
    const kind = passes ? 'TRANSIENT' : mistakes.includes(read(error, 'code')) ? 'PERMANENT' : unknown
    return { kind, code: readText(error, 'code') ?? 'INTERNAL_ERROR', details: toDetails(read(error, 'details')) }
  }
  if (isTimeout(error)) return { kind: 'TRANSIENT', code: 'TIMEOUT', details: originOf(error) }
  return { kind: unknown, code: 'INTERNAL_ERROR', details: originOf(error) }
}

function isTimeout(error: unknown): boolean {
  if (read(error, 'name') === 'TimeoutError' || read(error, 'code') === 'ETIMEDOUT') return true
  // What AbortSignal.timeout() cancels often throws an AbortError whose cause is the timeout.
  return read(error, 'name') === 'AbortError' && read(read(error, 'cause'), 'name') === 'TimeoutError'
}
