import type { IncomingMessage } from 'node:http'
import { Problem } from './problem.js'

const MOST_BYTES = 1_000_000

/** The JSON of a request: bounded, well-formed, and of text that PostgreSQL can hold. */
export async function readJson(message: IncomingMessage): Promise<unknown> {
  if (Number(message.headers['content-length'] ?? 0) > MOST_BYTES) throw tooLarge()
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of message as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MOST_BYTES) throw tooLarge()
    chunks.push(chunk)
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
    return JSON.parse(text, (key, value: unknown) => {
      if (typeof value === 'string') checkText(key, value)
      return value
    })
  } catch (error) {
    if (error instanceof Problem) throw error
    throw new Problem(400, 'Bad Request', 'The body is not JSON.', {
      code: 'MALFORMED_JSON',
      errors: [{ field: 'body', detail: 'is not JSON' }],
    })
  }
}

function checkText(field: string, text: string): void {
  if (!text.includes('\0') && !/\p{Surrogate}/u.test(text)) return
  throw new Problem(422, 'Unprocessable Content', `${field || 'body'} holds a character that cannot be stored.`, {
    code: 'INVALID_INPUT',
    errors: [{ field: field || 'body', detail: 'holds U+0000 or half of a surrogate pair' }],
  })
}

function tooLarge(): Problem {
  return new Problem(413, 'Content Too Large', `At most ${MOST_BYTES} bytes are read.`, { code: 'TOO_LARGE' })
}
