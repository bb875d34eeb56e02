/** Up to here the engine's own search is at most so many times the length of the text, and faster than any other. */
const SHORT = 64

/**
 * Whether a text contains another, in time that grows with their lengths and not with the product of them, as that of
 * `String.includes` does for parts that nearly match everywhere. Both come from inputs.
 */
export function includes(text: string, part: string): boolean {
  if (part.length <= SHORT || part.length > text.length) return text.includes(part)
  const borders = bordersOf(part)
  let matched = 0
  for (let at = 0; at < text.length; at += 1) {
    while (matched > 0 && text.charCodeAt(at) !== part.charCodeAt(matched)) matched = borders[matched - 1] ?? 0
    if (text.charCodeAt(at) === part.charCodeAt(matched)) matched += 1
    if (matched === part.length) return true
  }
  return false
}

/** Of every beginning of the part, how much of its end is a beginning too (Knuth, Morris and Pratt). */
function bordersOf(part: string): Int32Array {
  const borders = new Int32Array(part.length)
  let length = 0
  for (let at = 1; at < part.length; at += 1) {
    while (length > 0 && part.charCodeAt(at) !== part.charCodeAt(length)) length = borders[length - 1] ?? 0
    if (part.charCodeAt(at) === part.charCodeAt(length)) length += 1
    borders[at] = length
  }
  return borders
}
