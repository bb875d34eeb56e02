import type { FieldProblem } from '../domain/problem.js'

interface Details {
  /** The same for every problem of this kind, for programs. */
  readonly code: string
  /** What is wrong in the request, field by field. */
  readonly errors?: readonly FieldProblem[]
}

/** Problem details (RFC 9457). */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly status: number
  readonly title: string
  readonly detail: string
  readonly code: string
  readonly errors: readonly FieldProblem[]

  constructor(status: number, title: string, detail: string, { code, errors = [] }: Details) {
    super(`${title}: ${detail}`)
    this.status = status
    this.title = title
    this.detail = detail
    this.code = code
    this.errors = errors
  }

  toJSON(): object {
    const { status, title, detail, code, errors } = this
    return { type: 'about:blank', title, status, code, detail, ...(errors.length > 0 ? { errors } : {}) }
  }
}

export const notFound = (what: string): Problem =>
  new Problem(404, 'Not Found', `There is no ${what}.`, { code: 'NOT_FOUND' })
