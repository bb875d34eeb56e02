import type { Codec } from '../kernel/codec/codec.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { dateOption, durationOption } from '../kernel/validation/options.js'

/** What is sent, unchecked: it comes from callers that may have no types. */
interface Parcel {
  readonly queue: string
  readonly delay: unknown
  readonly headers: unknown
}

/** The one parameter of the statement, as a caller's transaction wants it (kernel/database/caller.ts). */
export function sendRequest(codec: Codec, message: unknown, { queue, delay, headers }: Parcel): string {
  const parts = [...address('send', queue, delay), `"message":${codec.encode(message, { at: 'message' }).json}`]
  if (headers !== undefined) parts.push(`"headers":${encodeHeaders('send', codec, headers, 'headers')}`)
  return `{${parts.join()}}`
}

export function sendBatchRequest(codec: Codec, messages: unknown, { queue, delay, headers }: Parcel): string {
  if (!Array.isArray(messages) || messages.length === 0) {
    const found = Array.isArray(messages) ? 'an empty one' : describe(messages)
    throw invalidOption('sendBatch', 'messages', `must be an array of messages, not ${found}`)
  }
  const encoded = messages.map((message: unknown, index) => codec.encode(message, { at: `messages[${index}]` }).json)
  const parts = [...address('sendBatch', queue, delay), `"messages":[${encoded.join()}]`]
  if (headers !== undefined) parts.push(`"headers":[${encodeAllHeaders(codec, headers, messages.length).join()}]`)
  return `{${parts.join()}}`
}

function address(where: string, queue: string, delay: unknown): string[] {
  const name = `"queue":${JSON.stringify(queue)}`
  if (!(delay instanceof Date)) return [name, `"after":${durationOption(where, 'delay', delay, { default: 0 })}`]
  // PostgreSQL's calendar begins later than JavaScript's; for a message the past is all one.
  return [name, `"at":${Math.max(0, dateOption(where, 'delay', delay).getTime())}`]
}

function encodeAllHeaders(codec: Codec, headers: unknown, count: number): string[] {
  if (!Array.isArray(headers) || headers.length !== count) {
    const found = Array.isArray(headers) ? `of ${headers.length}` : describe(headers)
    throw invalidOption('sendBatch', 'headers', `must be an array of ${count}, one entry per message, not ${found}`)
  }
  return headers.map((own: unknown, index) =>
    own === null ? 'null' : encodeHeaders('sendBatch', codec, own, `headers[${index}]`),
  )
}

function encodeHeaders(where: string, codec: Codec, headers: unknown, at: string): string {
  const { json } = codec.encode(headers, { at })
  if (json.startsWith('{')) return json
  throw invalidOption(where, at, `must be an object, not ${describe(headers)}`)
}
