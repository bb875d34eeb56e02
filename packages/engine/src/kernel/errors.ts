import { databaseErrors } from './errors/database.js'
import type { ErrorEntry } from './errors/entry.js'
import { executionErrors } from './errors/execution.js'
import { inputErrors } from './errors/input.js'
import { workErrors } from './errors/work.js'

/**
 * The one registry of errors: every code that Holdfast can throw, its sentence, its HTTP status and what to do next. The folder
 * `errors/` has them by subject. The page docs/reference/errors.md is made from the registry, and a test keeps the two the same.
 */
export const errorRegistry = {
  ...inputErrors,
  ...databaseErrors,
  ...workErrors,
  ...executionErrors,
} satisfies Record<string, ErrorEntry<never>>

export type ErrorCode = keyof typeof errorRegistry
export type ErrorDetails<Code extends ErrorCode> = Parameters<(typeof errorRegistry)[Code]['message']>[0]

/**
 * Every error that Holdfast throws on purpose. Switch on `code`; show `message` and `next` to people.
 *
 * @example
 * try { await hf.send(BookRisk, request) } catch (error) {
 *   if (error instanceof HoldfastError && error.code === 'HF_INVALID_DATA') return reply(error.status, error.message)
 *   throw error
 * }
 */
export class HoldfastError<Code extends ErrorCode = ErrorCode> extends Error {
  readonly code: Code
  readonly status: number
  readonly details: ErrorDetails<Code>
  /** What the reader of the message can do about it. */
  readonly next: string

  constructor(code: Code, details: ErrorDetails<Code>, options?: ErrorOptions) {
    // The registry is a union of entries; the pair (code, details) is right by the signature above.
    const { message, status, next } = errorRegistry[code] as unknown as ErrorEntry<ErrorDetails<Code>>
    super(message(details), options)
    this.name = 'HoldfastError'
    this.code = code
    this.status = status
    this.details = details
    this.next = next
  }
}
