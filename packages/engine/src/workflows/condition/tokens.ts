import { malformed } from './malformed.js'

export type Token =
  | { readonly kind: 'open' | 'close' | 'end'; readonly at: number; readonly text: string }
  | { readonly kind: 'word' | 'number' | 'text' | 'rawText'; readonly at: number; readonly text: string }
  | { readonly kind: 'field'; readonly at: number; readonly text: string }

// `{{-` and `-}}` are Go's too, where a space tells them from a minus; what they trim is not there to begin with.
const action = /^\s*\{\{(?:-(?=\s))?([\s\S]*?)(?:(?<=\s)-)?\}\}\s*$/d
const LONGEST = 10_000

// One alternative per kind, tried in this order at the place reached; what none fits is an error there.
const patterns: readonly (readonly [Token['kind'], RegExp])[] = [
  ['open', /\(/y],
  ['close', /\)/y],
  ['text', /"(?:[^"\\\n]|\\[^\n])*"/y],
  ['rawText', /`[^`]*`/y],
  ['number', /[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\p{L}\p{N}_.])/uy],
  ['field', /(?:\.[\p{L}_][\p{L}\p{N}_]*)+|\.(?![\p{L}\p{N}_.])/uy],
  ['word', /[\p{L}_][\p{L}\p{N}_]*/uy],
]
const space = /\s*/y

/** Cuts `{{ gt .amount 100 }}` into its words, each with its place in the whole text. */
export function tokenize(expression: string): Token[] {
  if (expression.length > LONGEST) throw malformed(expression, 0, `is longer than ${LONGEST} characters`)
  const inside = action.exec(expression)?.indices?.[1]
  if (inside === undefined) {
    throw malformed(expression, 0, 'must be one expression between {{ and }}, such as {{ gt .amount 100 }}')
  }
  const [start, end] = inside
  const tokens: Token[] = []
  for (let at = skipSpace(expression, start); at < end; at = skipSpace(expression, at)) {
    const token = tokenAt(expression, at, end)
    tokens.push(token)
    at += token.text.length
  }
  tokens.push({ kind: 'end', at: end, text: '' })
  return tokens
}

function skipSpace(expression: string, at: number): number {
  space.lastIndex = at
  return at + (space.exec(expression)?.[0].length ?? 0)
}

function tokenAt(expression: string, at: number, end: number): Token {
  for (const [kind, pattern] of patterns) {
    pattern.lastIndex = at
    const text = pattern.exec(expression)?.[0]
    if (text !== undefined && at + text.length <= end) return { kind, at, text }
  }
  throw malformed(expression, at, problemAt(expression.slice(at, end)))
}

function problemAt(rest: string): string {
  if (rest.startsWith('"') || rest.startsWith('`')) return 'a text begins here and does not end'
  if (rest.startsWith('|')) return 'pipes are not supported: write the call as `gt .amount 100`'
  if (rest.startsWith('$')) return 'variables are not supported: write a field as `.amount`'
  if (rest.startsWith("'")) return 'a text stands between double quotes'
  if (/^[+-]?\d/.test(rest)) return 'is no number: write digits, with a decimal point if need be'
  if (rest.startsWith('.')) return 'is no field: write `.name` or `.outer.inner`'
  return `\`${String.fromCodePoint(rest.codePointAt(0) ?? 0)}\` means nothing here`
}
