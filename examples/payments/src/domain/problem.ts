/** What is wrong with an input, and where: `behaviour.bookRisk`, `amount`. */
export interface FieldProblem {
  readonly field: string
  readonly detail: string
}

/** An input that cannot be accepted; every problem at once. */
export class InvalidInput extends Error {
  override readonly name = 'InvalidInput'
  readonly problems: readonly FieldProblem[]

  constructor(problems: readonly FieldProblem[]) {
    super(problems.map(({ field, detail }) => `${field} ${detail}`).join('; '))
    this.problems = problems
  }
}
