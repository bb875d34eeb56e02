import type { IncomingMessage, ServerResponse } from 'node:http'
import { HoldfastError } from 'holdfast'
import pg from 'pg'
import { InvalidInput } from '../domain/problem.js'
import { readJson } from './body.js'
import { notFound, Problem } from './problem.js'
import { checkSender } from './trust.js'

export interface Request {
  /** The values of `:name` in the path. */
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

/** Finds the handler of a request and writes its response; errors become problem details. */
export function createRouter(routes: Routes, onTrouble: (error: unknown) => void) {
  const known = Object.entries(routes).map(([route, handler]) => {
    const [method = '', path = ''] = route.split(' ')
    return { method, parts: path.split('/'), handler }
  })

  async function answer(message: IncomingMessage): Promise<Answer> {
    checkSender(message)
    const { pathname, searchParams: query } = addressOf(message)
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
        { code: 'METHOD_NOT_ALLOWED' },
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
      // The caller is gone, or this server is closing: no response can be sent.
      if (message.destroyed && !message.complete) return
      const problem = toProblem(error)
      if (problem.status >= 500) onTrouble(error)
      // The unread part of a request would be taken for the next one.
      const headers = message.complete ? {} : { connection: 'close' }
      write(response, problem.status, 'application/problem+json', problem, headers)
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

function addressOf({ url = '/' }: IncomingMessage): URL {
  // Prefixed, not resolved: '//host/path' is a path here, as the request line says, and not another host.
  const address = `http://localhost${url.startsWith('/') ? url : `/${url}`}`
  if (URL.canParse(address)) return new URL(address)
  throw new Problem(400, 'Bad Request', 'The path of the request cannot be read.', { code: 'MALFORMED_PATH' })
}

function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (error instanceof InvalidInput) {
    const details = { code: 'INVALID_INPUT', errors: error.problems }
    return new Problem(422, 'Unprocessable Content', `${error.message}.`, details)
  }
  if (error instanceof HoldfastError && error.status < 500) {
    return new Problem(error.status, 'Refused', error.message, { code: error.code })
  }
  // Class 22, "data exception": a value that the database cannot store.
  if (error instanceof pg.DatabaseError && error.code?.startsWith('22')) {
    return new Problem(422, 'Unprocessable Content', 'A value cannot be stored.', { code: 'INVALID_INPUT' })
  }
  return new Problem(500, 'Internal Server Error', 'Something went wrong here; it is in our log.', { code: 'INTERNAL' })
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
