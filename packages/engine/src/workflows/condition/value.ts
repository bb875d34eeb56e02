import { type Decimal, parseDecimal } from './decimal.js'

/** What an expression can be. A missing field and null are the same: nothing. */
export type Value =
  | { readonly is: 'missing' }
  | { readonly is: 'boolean'; readonly value: boolean }
  | { readonly is: 'number'; readonly value: Decimal }
  | { readonly is: 'text'; readonly value: string }
  | { readonly is: 'list'; readonly items: readonly unknown[] }
  | { readonly is: 'object'; readonly fields: object }

export const missing: Value = { is: 'missing' }
export const booleanValue = (value: boolean): Value => ({ is: 'boolean', value })
export const textValue = (value: string): Value => ({ is: 'text', value })

const textOrNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

/**
 * Reads JSON without losing a digit: `JSON.parse` would make floats of its numbers. So every number is turned into a text
 * first, told from real texts by its first letter. Keys get the letter too, which makes `__proto__` a key like any other.
 *
 * @example
 * readJson('{"amount": 9007199254740993.10}')
 */
export function readJson(json: string): Value {
  return toValue(JSON.parse(json.replace(textOrNumber, marked)))
}

const marked = (token: string): string => (token.startsWith('"') ? `"t${token.slice(1)}` : `"n${token}"`)

/** A part of what `readJson` read. */
export function toValue(raw: unknown): Value {
  if (typeof raw === 'boolean') return booleanValue(raw)
  if (typeof raw === 'string') return toScalar(raw)
  if (Array.isArray(raw)) return { is: 'list', items: raw }
  return typeof raw === 'object' && raw !== null ? { is: 'object', fields: raw } : missing
}

function toScalar(raw: string): Value {
  const text = raw.slice(1)
  const number = raw.startsWith('n') ? parseDecimal(text) : undefined
  return number === undefined ? textValue(text) : { is: 'number', value: number }
}

export function fieldOf(fields: object, name: string): Value {
  const key = `t${name}`
  return Object.hasOwn(fields, key) ? toValue(Reflect.get(fields, key)) : missing
}

/** Nothing, false, zero and what is empty are false, as in Go; and so is a text that spells one of them. */
export function isTruthy(value: Value): boolean {
  switch (value.is) {
    case 'missing':
      return false
    case 'boolean':
      return value.value
    case 'number':
      return value.value.sign !== 0
    case 'text':
      return value.value !== '' && value.value !== 'false' && parseDecimal(value.value)?.sign !== 0
    case 'list':
      return value.items.length > 0
    case 'object':
      return Object.keys(value.fields).length > 0
  }
}
