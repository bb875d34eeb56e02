import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { inquire } from './inquiry.js'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const never = new AbortController().signal
const limits = { limitMs: 5_000, patienceMs: 30_000, signal: () => never }

describe('K-20 an inquiry', () => {
  test.each([
    ['done', { done: 'paid' }],
    ['notDone', 'notDone'],
  ])('that returns %s is made once', async (_, answer) => {
    const ask = vi.fn(() => answer)
    expect(await inquire(ask, limits)).toEqual(answer)
    expect(ask).toHaveBeenCalledOnce()
  })

  test('that fails, or does not know yet, is repeated, later each time', async () => {
    const began = Date.now()
    const askedAt: number[] = []
    const ask = async () => {
      askedAt.push(Date.now() - began)
      if (askedAt.length === 1) throw new Error('503')
      return askedAt.length < 4 ? 'unknown' : { done: 'paid' }
    }
    const answered = inquire(ask, limits)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await answered).toEqual({ done: 'paid' })
    expect(askedAt).toEqual([0, 1_000, 3_000, 7_000])
  })

  test.each([
    ['does not know', () => 'unknown', /does not know whether it had its effect/],
    ['fails', () => Promise.reject(new Error('503')), /failed: 503/],
    ['takes too long', () => new Promise(() => undefined), /failed: it took longer than 5 s/],
  ])('that %s until its time is over leaves the outcome to an operator', async (_, ask, problem) => {
    const asked = vi.fn(ask)
    const answered = inquire(asked, limits)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await answered).toMatchObject({ problem: expect.stringMatching(problem) })
    expect(asked.mock.calls.length).toBeGreaterThan(1)
  })

  test('with no time to repeat it is made once', async () => {
    const ask = vi.fn(() => 'unknown')
    expect(await inquire(ask, { ...limits, patienceMs: 0 })).toHaveProperty('problem')
    expect(ask).toHaveBeenCalledOnce()
  })

  test.each([[undefined], [true], [{ reference: 'B-1' }]])(
    'that returns %j is an error that says so',
    async (answer) => {
      const ask = vi.fn(() => answer)
      expect(await inquire(ask, limits)).toMatchObject({
        problem: expect.stringContaining("must answer { done: result }, 'notDone' or 'unknown'"),
      })
      expect(ask).toHaveBeenCalledOnce()
    },
  )

  test('ends when its worker stops', async () => {
    const stop = new AbortController()
    const ask = vi.fn(() => 'unknown')
    const answered = inquire(ask, { ...limits, signal: () => stop.signal })
    await vi.advanceTimersByTimeAsync(1_500)
    stop.abort()
    expect(await answered).toHaveProperty('problem')
    expect(ask).toHaveBeenCalledTimes(2)
  })
})
