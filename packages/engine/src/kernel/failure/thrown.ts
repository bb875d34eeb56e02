import { inspect } from 'node:util'
import { createCodec } from '../codec/codec.js'
import type { Json } from '../codec/type.js'
import { storableText } from '../validation/storable-text.js'

/** Enough to read; a failure is stored with every attempt. */
const longestMessage = 8000
const mostCauses = 5

const detailsCodec = createCodec({ maxBytes: 16_384 })

/** A property of something thrown. Whatever stands in the way (a getter that throws, a revoked proxy) means "none". */
export function read(thrown: unknown, property: PropertyKey): unknown {
  if ((typeof thrown !== 'object' && typeof thrown !== 'function') || thrown === null) return undefined
  try {
    return Reflect.get(thrown, property)
  } catch {
    return undefined
  }
}

export function readText(thrown: unknown, property: PropertyKey): string | undefined {
  const value = read(thrown, property)
  return typeof value === 'string' && value !== '' ? value : undefined
}

export function shorten(text: string, longest: number): string {
  if (text.length <= longest) return text
  return `${text.slice(0, longest)}… (${text.length - longest} more characters)`
}

/** What was thrown in words that can be stored, and what it was caused by. */
export function describeThrown(thrown: unknown): { message: string; causes: string[] } {
  const causes: string[] = []
  let cause = read(thrown, 'cause')
  // Bounded, because causes can go round in a circle.
  while (cause !== undefined && cause !== null && causes.length < mostCauses) {
    const name = readText(cause, 'name')
    causes.push(name === undefined ? messageOf(cause) : `${storableText(shorten(name, 200))}: ${messageOf(cause)}`)
    cause = read(cause, 'cause')
  }
  return { message: withRemedy(thrown, withCause(messageOf(thrown), causes)), causes }
}

/** Bounded in bytes: the record keeps it with every failed attempt. */
const longestStack = 4_096

/** The lines of the stack that say where; the message is kept apart, and may be long. */
export function stackOf(thrown: unknown): string | undefined {
  const text = readText(thrown, 'stack')
  if (text === undefined) return undefined
  // Cut before the lines are searched: a message of megabytes is part of the text.
  const message = readText(thrown, 'message') ?? ''
  const at = text.indexOf('\n    at ', message.length < text.length ? message.length : 0)
  if (at === -1) return undefined
  const lines: string[] = []
  let bytes = 0
  for (const line of storableText(text.slice(at + 1, at + 1 + longestStack)).split('\n')) {
    bytes += Buffer.byteLength(line) + 1
    if (bytes > longestStack) break
    lines.push(line.trim())
  }
  return lines.join('\n')
}

/** `fetch failed` alone says nothing: what it was caused by belongs to it, where it is not repeated there. */
function withCause(message: string, [nearest]: readonly string[]): string {
  if (nearest === undefined) return message
  const said = nearest.slice(nearest.indexOf(': ') + 1).trim()
  return message.includes(said) ? message : `${message} (${shorten(nearest, 500)})`
}

/** Our own errors say what to do about them; the person who reads the record needs that most. */
function withRemedy(thrown: unknown, message: string): string {
  const remedy = readText(thrown, 'name') === 'HoldfastError' ? readText(thrown, 'next') : undefined
  return remedy === undefined ? message : `${message}. ${remedy}`
}

function messageOf(thrown: unknown): string {
  const text = typeof thrown === 'string' ? thrown : (readText(thrown, 'message') ?? readText(thrown, 'name'))
  // Shortened first: the end of a cut may be half of a surrogate pair.
  return storableText(shorten(text || `${show(thrown)} was thrown`, longestMessage))
}

function show(thrown: unknown): string {
  try {
    return inspect(thrown, { depth: 2, customInspect: false, breakLength: Number.POSITIVE_INFINITY })
  } catch {
    return `something of type ${typeof thrown}`
  }
}

/** What an error that is not ours calls itself. */
export function originOf(thrown: unknown): Json | undefined {
  const name = readText(thrown, 'name')
  const code = read(thrown, 'code')
  const hasCode = typeof code === 'string' || typeof code === 'number'
  if (name === undefined && !hasCode) return undefined
  return toDetails({ name, code: hasCode ? code : undefined })
}

/** Details as plain JSON. Those that cannot be stored must not keep the failure itself from being stored. */
export function toDetails(details: unknown): Json | undefined {
  if (details === undefined) return undefined
  try {
    const json: Json = JSON.parse(detailsCodec.encode(details, { at: 'details' }).json)
    return json
  } catch (error) {
    return { omitted: messageOf(error) }
  }
}
