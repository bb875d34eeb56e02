import type { Behaviour } from '../simulation/behaviour.js'

/** One call of a fake, and how it ended. */
export interface FakeCall<Args extends readonly unknown[], Result> {
  readonly args: Args
  readonly answer?: Result
  readonly error?: unknown
}

/** What a fake does when it is called: a value, or a function of what it was called with. */
export type FakeAnswer<Args extends readonly unknown[], Result> = Result | ((...args: Args) => Result | Promise<Result>)

/** A function that returns what a test tells it to, and records its calls. */
export interface Fake<Args extends readonly unknown[], Result> {
  (...args: Args): Promise<Result>
  /** All calls so far, in the order in which they ended. */
  readonly calls: readonly FakeCall<Args, Result>[]
  /** From now on. */
  returns(answer: FakeAnswer<Args, Result>): this
  fails(error: unknown): this
  /** The next time; several are used in order, before `returns` and `fails`. */
  returnsOnce(answer: FakeAnswer<Args, Result>): this
  failsOnce(error: unknown): this
  /**
   * Before it returns, fails as often as the behaviour says. The key decides the outcome of a call, whatever is called
   * first; without one the outcomes are taken in the order of the calls.
   */
  behaves(behaviour: Behaviour, key?: (...args: Args) => string): this
}

/**
 * A fake of a function of yours.
 *
 * @example
 * const book = fake<[paymentId: string], { reference: string }>()
 *   .failsOnce(new TransientError('the risk service is restarting'))
 *   .returns((paymentId) => ({ reference: `RISK-${paymentId}` }))
 */
export function fake<Args extends readonly unknown[], Result>(answer?: FakeAnswer<Args, Result>): Fake<Args, Result> {
  type Turn = (...args: Args) => Result | Promise<Result>
  const calls: FakeCall<Args, Result>[] = []
  const script: Turn[] = []
  let always: Turn = () => {
    throw new Error('the fake was called, and has no result: set one with returns() or returnsOnce()')
  }
  let behave: (args: Args) => Promise<unknown> = async () => undefined

  async function call(...args: Args): Promise<Result> {
    try {
      await behave(args)
      const turn = script.shift() ?? always
      const given = await turn(...args)
      calls.push({ args, answer: given })
      return given
    } catch (error) {
      calls.push({ args, error })
      throw error
    }
  }
  const faked: Fake<Args, Result> = Object.assign(call, {
    calls,
    returns(next: FakeAnswer<Args, Result>) {
      always = turnOf(next)
      return faked
    },
    fails(error: unknown) {
      always = failing(error)
      return faked
    },
    returnsOnce(next: FakeAnswer<Args, Result>) {
      script.push(turnOf(next))
      return faked
    },
    failsOnce(error: unknown) {
      script.push(failing(error))
      return faked
    },
    behaves(behaviour: Behaviour, key?: (...args: Args) => string) {
      behave = (args) => behaviour.act(key?.(...args))
      return faked
    },
  })
  if (answer !== undefined) faked.returns(answer)
  return faked

  function turnOf(next: FakeAnswer<Args, Result>): Turn {
    return isTurn(next) ? next : () => next
  }
  function isTurn(next: FakeAnswer<Args, Result>): next is Turn {
    return typeof next === 'function'
  }
  function failing(error: unknown): Turn {
    return () => {
      throw error
    }
  }
}
