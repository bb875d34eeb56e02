import type { IncomingMessage, ServerResponse } from 'node:http'
import { InvalidInput } from '../domain/problem.js'
import { notFound, Problem } from './problem.js'

export interface Request {
  /** What stands for `:name` in the path. */
  readonly params: Readonly<Record<string, string>>
  readonly headers: IncomingMessage['headers']
  readonly query: URLSearchParams
  /** The JSON that was sent. */
  readonly body: () => Promise<unknown>
}

export interface Answer {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

type Handler = (request: Request) => Promise<Answer>

/** `POST /payments/:id/cancel` → handler */
export type Routes = Readonly<Record<string, Handler>>

const MOST_BYTES = 1_000_000

/** Finds the handler of a request and writes what it answers; whatever goes wrong is told as problem details. */
export function createRouter(routes: Routes, onTrouble: (error: unknown) => void) {
  const known = Object.entries(routes).map(([route, handler]) => {
    const [method = '', path = ''] = route.split(' ')
    return { method, parts: path.split('/'), handler }
  })

  async function answer(message: IncomingMessage): Promise<Answer> {
    const { pathname, searchParams: query } = new URL(message.url ?? '/', 'http://localhost')
    const fitting = known.flatMap(({ method, parts, handler }) => {
      const params = match(parts, pathname.split('/'))
      return params ? [{ method, params, handler }] : []
    })
    if (fitting.length === 0) throw notFound(`${pathname} here`)
    const found = fitting.find(({ method }) => method === message.method)
    if (!found) {
      throw new Problem(
        405,
        'Method Not Allowed',
        `${pathname} takes ${fitting.map(({ method }) => method).join(', ')}.`,
      )
    }
    const { params, handler } = found
    return handler({ params, headers: message.headers, query, body: () => readJson(message) })
  }

  return async (message: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      const { status, body, headers } = await answer(message)
      write(response, status, 'application/json', body, headers)
    } catch (error) {
      const problem = toProblem(error)
      if (problem.status >= 500) onTrouble(error)
      write(response, problem.status, 'application/problem+json', problem)
    }
  }
}

function match(parts: readonly string[], given: readonly string[]): Record<string, string> | undefined {
  if (parts.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [place, part] of parts.entries()) {
    const here = given[place] ?? ''
    if (part.startsWith(':')) params[part.slice(1)] = here
    else if (part !== here) return undefined
  }
  return params
}

async function readJson(message: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of message as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MOST_BYTES) throw new Problem(413, 'Content Too Large', `At most ${MOST_BYTES} bytes are read.`)
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    throw new Problem(400, 'Bad Request', 'The body is not JSON.', [{ field: 'body', detail: 'is not JSON' }])
  }
}

function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (error instanceof InvalidInput)
    return new Problem(422, 'Unprocessable Content', `${error.message}.`, error.problems)
  return new Problem(500, 'Internal Server Error', 'Something went wrong here; it is in our log.')
}

function write(
  response: ServerResponse,
  status: number,
  type: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': type, ...headers })
  response.end(`${JSON.stringify(body)}\n`)
}
