import { malformed } from './malformed.js'
import type { Token } from './tokens.js'

const escapes = /\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))/gsu
const simple: Readonly<Record<string, string | undefined>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  '"': '"',
  '\\': '\\',
  '/': '/',
}

/** What stands between the double quotes of a token, with Go's (and JSON's) escapes resolved. */
export function unquote(expression: string, token: Token): string {
  return token.text
    .slice(1, -1)
    .replace(escapes, (found, code?: string, byte?: string, letter?: string, at?: number) => {
      const hex = code ?? byte
      if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
      const meant = letter === undefined ? undefined : simple[letter]
      if (meant === undefined) throw malformed(expression, token.at + 1 + (at ?? 0), `\`${found}\` is no escape`)
      return meant
    })
}
