import type { FieldProblem } from '../domain/problem.js'

/** Problem details (RFC 9457). */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly status: number
  readonly title: string
  readonly detail: string
  /** What is wrong in the request, field by field. */
  readonly errors: readonly FieldProblem[]

  constructor(status: number, title: string, detail: string, errors: readonly FieldProblem[] = []) {
    super(`${title}: ${detail}`)
    this.status = status
    this.title = title
    this.detail = detail
    this.errors = errors
  }

  toJSON(): object {
    const { status, title, detail, errors } = this
    return { type: 'about:blank', title, status, detail, ...(errors.length > 0 ? { errors } : {}) }
  }
}

export const notFound = (what: string): Problem => new Problem(404, 'Not Found', `There is no ${what}.`)
