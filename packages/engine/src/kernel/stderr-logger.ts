import { inspect } from 'node:util'
import type { Logger } from './logger.js'

/**
 * The logger of an installation that was opened without one: warnings and errors as readable lines on stderr, so that no
 * failure is hidden. `logger: false` silences it.
 *
 * @example
 * // 2026-03-02T16:00:00.000Z WARN  holdfast: attempt 1 of payments/BookRisk failed: connect ECONNREFUSED model=commands code=INTERNAL_ERROR
 */
export const stderrLogger: Logger = {
  debug() {},
  info() {},
  warn: (fields, message) => write('WARN ', fields, message),
  error: (fields, message) => write('ERROR', fields, message),
}

function write(level: string, fields: object, message: string): void {
  process.stderr.write(`${formatLine(new Date(), level, fields, message)}\n`)
}

/** One line: the sentence, then the fields as `name=value`; what has a stack follows indented. */
export function formatLine(at: Date, level: string, fields: object, message: string): string {
  const shown: string[] = []
  const below: string[] = []
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === null || value === '') continue
    if (name === 'stack' && typeof value === 'string') below.push(value)
    else if (value instanceof Error) {
      shown.push(`${name}=${quoted(value.message)}`)
      if (value.stack !== undefined) below.push(value.stack)
    } else shown.push(`${name}=${quoted(value)}`)
  }
  const line = `${at.toISOString()} ${level} holdfast: ${[message, ...shown].join(' ')}`
  return [line, ...below.flatMap((text) => text.split('\n')).map((text) => `    ${text}`)].join('\n')
}

function quoted(value: unknown): string {
  const text = typeof value === 'string' ? value : inspect(value, { depth: 2, breakLength: Number.POSITIVE_INFINITY })
  return typeof value === 'string' && /[\s"=]/.test(text) ? JSON.stringify(text) : text
}
