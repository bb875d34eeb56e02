import { expect, test } from 'vitest'
import { CLAIM_SIZE, CLAIMS, timeClaims, WARM_UP } from './claims.js'

test('claims are counted without the first ones', async () => {
  let calls = 0
  const durations = await timeClaims(async () => {
    calls += 1
    return CLAIM_SIZE
  })
  expect(calls).toBe(WARM_UP + CLAIMS)
  expect(durations).toHaveLength(CLAIMS)
})

test('a claim that comes back short ends it and does not count', async () => {
  let waiting = (WARM_UP + 3) * CLAIM_SIZE + 1
  const durations = await timeClaims(async () => {
    const claimed = Math.min(waiting, CLAIM_SIZE)
    waiting -= claimed
    return claimed
  })
  expect(durations).toHaveLength(3)
})
