const longest = 60

/**
 * A value as a message shows it: short, and never the whole of something large or secret.
 *
 * @example
 * describe('5x')        // "'5x'"
 * describe([1, 2, 3])   // 'an array'
 */
export function describe(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return value.length > longest ? `'${value.slice(0, longest)}…'` : `'${value}'`
    case 'object':
      return value === null ? 'null' : describeObject(value)
    case 'function':
      return 'a function'
    case 'symbol':
      return 'a symbol'
    case 'bigint':
      return `${String(value).slice(0, longest)}n`
    default:
      return String(value)
  }
}

/**
 * A name as a message shows it, whatever was given as the name: cut where it is long, described where it is no text.
 *
 * @example
 * shown('payments')   // 'payments'
 * shown(undefined)    // 'undefined'
 */
export function shown(name: unknown): string {
  if (typeof name !== 'string') return describe(name)
  return name.length > longest ? `${name.slice(0, longest)}…` : name
}

function describeObject(value: object): string {
  try {
    return describeReadable(value)
  } catch {
    return 'an object that cannot be read'
  }
}

function describeReadable(value: object): string {
  if (Array.isArray(value)) return 'an array'
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : value.toISOString()
  const name: unknown = value.constructor?.name
  return typeof name !== 'string' || name === 'Object' || name === '' ? 'an object' : `an instance of ${shown(name)}`
}
