import { createHash } from 'node:crypto'

/** More text does not tell two failures apart better, and the patterns stay fast on what a hostile peer sends. */
const longest = 1000

// In this order: a quoted text swallows the numbers in it, a UUID must not be taken for numbers.
const placeholders: readonly (readonly [RegExp, string])[] = [
  [/"[^"]*"|`[^`]*`|(?<!\w)'[^']*'(?!\w)/g, '<text>'],
  [/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, '<email>'],
  [/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi, '<id>'],
  [/\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?!\d)/g, '<date>'],
  [/\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b/gi, '<hex>'],
  [/\d+(?:[.,]\d+)*/g, '<n>'],
  [/\s+/g, ' '],
]

/**
 * A message without the parts that differ each time: ids, numbers, times.
 *
 * @example
 * messageShape("payment 4711 of 'Smith' was refused")   // 'payment <n> of <text> was refused'
 */
export function messageShape(message: string): string {
  const start = message.slice(0, longest).trim()
  return placeholders.reduce((shape, [pattern, placeholder]) => shape.replace(pattern, placeholder), start)
}

/**
 * Failures of the same code and the same shape of message belong together; this names their group. It is stored and
 * searched for: a change to the patterns starts new groups.
 */
export function fingerprint(code: string, shape: string): string {
  return createHash('sha256').update(`${code}\n${shape}`).digest('hex').slice(0, 16)
}
