import { expect, test } from 'vitest'
import { type BehaviourOptions, behaviour, behaviours, type Outcome } from './behaviour.js'

const keys = Array.from({ length: 20_000 }, (_, place) => `PAY-${place}`)

function shares(options: BehaviourOptions, seed: number) {
  const rolled = behaviour(options, seed)
  const counts: Partial<Record<Outcome, number>> = {}
  for (const key of keys) {
    const { outcome } = rolled.roll(key)
    counts[outcome] = (counts[outcome] ?? 0) + 1
  }
  return counts
}

test('A-04 outcomes come as often as they should', () => {
  const counts = shares({ permanent: 3, transient: 10, business: 5, timeout: 2, pending: 5 }, 1)
  const expected = { PERMANENT: 600, TRANSIENT: 2_000, BUSINESS: 1_000, TIMEOUT: 400, PENDING: 1_000, SUCCESS: 15_000 }
  for (const [outcome, share] of Object.entries(expected)) {
    const found = counts[outcome as Outcome] ?? 0
    // Four standard deviations; the seed is fixed, so it does not change from run to run.
    expect(Math.abs(found - share), outcome).toBeLessThan(4 * Math.sqrt(share))
  }
})

test.each<[BehaviourOptions, Outcome]>([
  [{ permanent: 100 }, 'PERMANENT'],
  [{ permanent: 0, transient: 100 }, 'TRANSIENT'],
  [{ business: 100 }, 'BUSINESS'],
  [{ timeout: 100 }, 'TIMEOUT'],
  [{ pending: 100 }, 'PENDING'],
  [{}, 'SUCCESS'],
])('A-04 %j always comes out %s', (options, outcome) => {
  expect(shares(options, 2)).toEqual({ [outcome]: keys.length })
})

test('A-04 one roll is compared in the order permanent, transient, business, timeout, pending', () => {
  // What the same roll meets when the first share is taken out of its way: the next in the order.
  const all = { permanent: 20, transient: 20, business: 20, timeout: 20, pending: 20 }
  const order = ['PERMANENT', 'TRANSIENT', 'BUSINESS', 'TIMEOUT', 'PENDING']
  const rolled = behaviour(all, 3)
  const shifted = behaviour({ ...all, permanent: 0 }, 3)
  for (const key of keys.slice(0, 1_000)) {
    const place = order.indexOf(rolled.roll(key).outcome)
    expect(shifted.roll(key).outcome).toBe(order[place + 1] ?? 'SUCCESS')
  }
})

test('A-04 the same seed and key come out the same, whatever was drawn before; another seed differs', () => {
  const options = { transient: 50, minDuration: 10, maxDuration: '1s' } as const
  const forwards = behaviour(options, 'seed')
  const backwards = behaviour(options, 'seed')
  const some = keys.slice(0, 200)
  const seen = new Map(some.map((key) => [key, forwards.roll(key)]))
  for (const key of some.toReversed()) expect(backwards.roll(key)).toEqual(seen.get(key))
  for (const { durationMs } of seen.values()) {
    expect(durationMs).toBeGreaterThanOrEqual(10)
    expect(durationMs).toBeLessThanOrEqual(1_000)
  }
  const other = behaviour(options, 'other seed')
  expect(some.filter((key) => other.roll(key).outcome !== seen.get(key)?.outcome).length).toBeGreaterThan(50)
  const inOrder = () =>
    Array.from(
      { length: 50 },
      (
        (next) => () =>
          next.roll().outcome
      )(behaviour(options, 4)),
    )
  expect(inOrder()).toEqual(inOrder())
})

test('A-04 simulated outcomes throw the errors whose kinds the engine knows', async () => {
  await expect(behaviour({ permanent: 100 }, 1).act()).rejects.toMatchObject({
    name: 'PermanentError',
    code: 'PERM_ERROR',
  })
  await expect(behaviour({ transient: 100 }, 1).act()).rejects.toMatchObject({
    name: 'TransientError',
    code: 'TRANS_ERROR',
  })
  await expect(behaviour({ business: 100 }, 1).act()).rejects.toMatchObject({
    name: 'BusinessError',
    code: 'BIZ_ERROR',
  })
  await expect(behaviour({ timeout: 100 }, 1).act()).rejects.toMatchObject({ name: 'TransientError', code: 'TIMEOUT' })
  expect(await behaviour({ pending: 100 }, 1).act()).toBe('PENDING')
  expect(await behaviour({ maxDuration: 2 }, 1).act()).toBe('SUCCESS')
})

test('A-04 each step has a behaviour and rolls of its own', () => {
  const of = behaviours({ bookRisk: { transient: 50 }, submit: { transient: 50 } }, 1)
  const risk = keys.slice(0, 100).map((key) => of('bookRisk').roll(key).outcome)
  const submit = keys.slice(0, 100).map((key) => of('submit').roll(key).outcome)
  expect(risk).not.toEqual(submit)
  expect(of('notify').roll('PAY-1').outcome).toBe('SUCCESS')
})

test.each<[BehaviourOptions, string]>([
  [{ permanent: 60, transient: 41 }, 'add up to 101'],
  [{ business: -1 }, 'business is -1'],
  [{ pending: Number.NaN }, 'pending is NaN'],
  [{ timeout: 101 }, 'timeout is 101'],
  [{ minDuration: '2s', maxDuration: '1s' }, 'maxDuration is less'],
])('A-04 %j is refused', (options, problem) => {
  expect(() => behaviour(options, 1)).toThrow(problem)
})
