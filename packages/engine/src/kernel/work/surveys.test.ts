import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createWorkLoop } from './loop.js'
import type { Claimed, ClaimRequest, ClaimResult, WorkSource } from './source.js'
import { loopsOf } from './surveys.js'

/** A source that a test fills, and the claims it was asked for. */
function createSource() {
  const claims: ClaimRequest[] = []
  let next: Partial<ClaimResult<Claimed>> | Error = {}
  const source: WorkSource<Claimed> = {
    model: 'things',
    types: () => ['thing'],
    async claim(request) {
      claims.push(request)
      const answer = next
      next = {}
      if (answer instanceof Error) throw answer
      return { items: [], marks: [{ type: 'thing', mark: 1 }], nextDueMs: null, ...answer }
    },
    extend: async () => ({ extended: [], lost: [] }),
    release: async () => undefined,
    oldestDueSeconds: async () => null,
  }
  return {
    source,
    claims,
    willAnswer: (answer: Partial<ClaimResult<Claimed>> | Error) => {
      next = answer
    },
  }
}

async function startLoop(run: (item: Claimed) => Promise<void> = async () => undefined) {
  const things = createSource()
  const worker = `worker ${randomUUID()}`
  const loop = createWorkLoop({
    source: things.source,
    run,
    worker,
    concurrency: 5,
    leaseMs: 60_000,
    pollMs: 60_000,
    databaseUptimeMs: async () => 600_000,
  })
  loop.start()
  onTestFinished(() => loop.stopNow())
  const [surveyed] = loopsOf(worker)
  if (!surveyed) throw new Error('the loop has not entered itself')
  return { ...things, loop, worker, surveyed }
}

test('X-01 a survey is a full scan that begins when it is asked for, as far ahead as it asks', async () => {
  const { surveyed, claims, willAnswer } = await startLoop()
  await surveyed.survey(1_000)
  willAnswer({ nextDueMs: 7_000 })
  expect(await surveyed.survey(1_000_000)).toEqual({ complete: true, taken: 0, nextDueMs: 7_000 })
  expect(claims.at(-1)).toMatchObject({ ceilingMs: 1_000_000, lanes: [{ type: 'thing', from: null }] })
})

test('X-01 a survey counts the items that it claimed and those that the claim itself handled; held are items that have not ended', async () => {
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const { surveyed, willAnswer } = await startLoop(() => ended)
  await surveyed.survey(1)
  willAnswer({ items: [{ id: '1', type: 'thing', epoch: 1 }], handled: 2 })
  expect(await surveyed.survey(1)).toMatchObject({ complete: true, taken: 3 })
  expect(surveyed).toMatchObject({ held: 1, claimed: 1 })
  end()
  await ended
  await surveyed.survey(1)
  expect(surveyed).toMatchObject({ held: 0, claimed: 1 })
})

test('X-01 a survey that the database did not answer, or of a stopped loop, is not complete', async () => {
  const { surveyed, loop, worker, willAnswer } = await startLoop()
  await surveyed.survey(1)
  willAnswer(new Error('gone'))
  expect(await surveyed.survey(1)).toEqual({ complete: false, taken: 0, nextDueMs: null })
  await loop.stop()
  expect(await surveyed.survey(1)).toMatchObject({ complete: false })
  expect(loopsOf(worker)).toEqual([])
})
