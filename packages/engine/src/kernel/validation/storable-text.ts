// With the `u` flag a surrogate is matched only where it has no partner.
const loneSurrogate = /\p{Surrogate}/u
const loneSurrogates = /\p{Surrogate}/gu

/**
 * What PostgreSQL cannot hold in this text, or nothing when it can hold it.
 *
 * @example
 * unstorableIn('a\u0000b')   // 'the character \\u0000'
 */
export function unstorableIn(text: string): string | undefined {
  if (text.includes('\u0000')) return 'the character \\u0000'
  return loneSurrogate.test(text) ? 'half of a surrogate pair' : undefined
}

/** The text with what PostgreSQL cannot hold replaced, for messages that must be stored whatever they contain. */
export function storableText(text: string): string {
  return text.replaceAll('\u0000', '\ufffd').replace(loneSurrogates, '\ufffd')
}
