/** The keys that lead from the whole value to one of its parts. */
export type Keys = readonly (string | number)[]

const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u

/**
 * A path as a person would write it in code.
 *
 * @example
 * displayPath('$', ['payment', 'lines', 3, 'odd key'])   // '$.payment.lines[3]["odd key"]'
 */
export function displayPath(root: string, keys: Keys): string {
  return root + keys.map(displayKey).join('')
}

function displayKey(key: string | number): string {
  if (typeof key === 'number') return `[${key}]`
  return identifier.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}

/** The same path as a JSON pointer (RFC 6901), which is how notes name it. */
export function toPointer(keys: Keys): string {
  let pointer = ''
  for (const key of keys) pointer += `/${typeof key === 'number' ? key : escapeKey(key)}`
  return pointer
}

/** Pointers do not tell an index from a key of digits: all keys come back as text. */
export function fromPointer(pointer: string): string[] {
  const [, ...keys] = pointer.split('/')
  return pointer.includes('~') ? keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~')) : keys
}

const escapeKey = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1')
