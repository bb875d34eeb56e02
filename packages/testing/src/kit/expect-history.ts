import { AssertionError } from 'node:assert'

/** A line as it is, what it must look like, or `'…'` for any number of lines. */
export type ExpectedLine = string | RegExp

const ANYTHING = '…'

/**
 * Compares a history with what it should be, and shows the difference line by line.
 *
 * @example
 * expectHistory(await kit.history(Payment, id), ['PROCESS_CREATED', '…', 'STEP submit COMPLETED', 'COMPLETED'])
 */
export function expectHistory(history: readonly string[], expected: readonly ExpectedLine[]): void {
  const lines = compare(history, expected)
  if (lines.every(({ mark }) => mark === ' ')) return
  const told = lines.map(({ mark, line }) => `  ${mark} ${line}`).join('\n')
  throw new AssertionError({
    message: `the history is not as expected (- expected, + happened)\n${told}`,
    actual: history,
    expected,
    operator: 'expectHistory',
  })
}

interface ComparedLine {
  /** Expected and there, expected and missing, there and not expected. */
  readonly mark: ' ' | '-' | '+'
  readonly line: string
}

/** The comparison with the fewest differences: the longest common subsequence, where a pattern equals what it matches. */
function compare(history: readonly string[], expected: readonly ExpectedLine[]): ComparedLine[] {
  const memory = new Map<number, Plan>()
  return [...walk(planFrom(0, 0))]

  /** What is best from these places on. */
  function planFrom(at: number, want: number): Plan {
    const key = at * (expected.length + 1) + want
    const known = memory.get(key)
    if (known) return known
    const plan = bestPlan(at, want)
    memory.set(key, plan)
    return plan
  }

  function bestPlan(at: number, want: number): Plan {
    const line = history[at]
    const wanted = expected[want]
    const plans: Plan[] = []
    if (wanted === ANYTHING) {
      plans.push(costOf(planFrom(at, want + 1), 0))
      if (line !== undefined) plans.push({ ...costOf(planFrom(at + 1, want), 0), told: { mark: ' ', line } })
    } else {
      if (line !== undefined && wanted !== undefined && fits(line, wanted)) {
        plans.push({ ...costOf(planFrom(at + 1, want + 1), 0), told: { mark: ' ', line } })
      }
      if (wanted !== undefined)
        plans.push({ ...costOf(planFrom(at, want + 1), 1), told: { mark: '-', line: `${wanted}` } })
      if (line !== undefined) plans.push({ ...costOf(planFrom(at + 1, want), 1), told: { mark: '+', line } })
    }
    return (
      plans.reduce<Plan | undefined>((best, plan) => (best && best.cost <= plan.cost ? best : plan), undefined) ?? END
    )
  }
}

interface Plan {
  readonly cost: number
  readonly told?: ComparedLine
  readonly rest?: Plan
}

const END: Plan = { cost: 0 }

const costOf = (rest: Plan, cost: number) => ({ cost: rest.cost + cost, rest })

function* walk(plan: Plan): Generator<ComparedLine> {
  for (let next: Plan | undefined = plan; next; next = next.rest) if (next.told) yield next.told
}

const fits = (line: string, wanted: ExpectedLine) => (typeof wanted === 'string' ? wanted === line : wanted.test(line))
