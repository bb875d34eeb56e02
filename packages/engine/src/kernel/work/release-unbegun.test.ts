import { expect, test, vi } from 'vitest'
import { createWorkLoop } from './loop.js'
import type { Claimed, ClaimResult, LeaseRef, WorkSource } from './source.js'

test('K-26 a worker that stops releases what it has not begun: what was lost before stays lost, the rest counts as never claimed', async () => {
  const told: string[] = []
  const tell = (what: string) => async (leases: readonly LeaseRef[]) => {
    told.push(`${what} ${leases.map(({ id, epoch }) => `${id}@${epoch}`).join(' ')}`)
  }
  let answer: ((claimed: ClaimResult<Claimed>) => void) | undefined
  const source: WorkSource<Claimed> = {
    model: 'things',
    types: () => ['thing'],
    claim: () => new Promise((resolve) => (answer = resolve)),
    extend: async () => ({ extended: [], lost: [] }),
    release: tell('release'),
    oldestDueSeconds: async () => null,
    losses: {
      begun: async () => undefined,
      forget: async () => undefined,
      interrupted: tell('interrupted'),
      expire: tell('expire'),
    },
  }
  const loop = createWorkLoop({
    source,
    run: async () => void told.push('run'),
    worker: 'w',
    concurrency: 5,
    leaseMs: 60_000,
    pollMs: 60_000,
  })
  loop.start()
  await vi.waitUntil(() => answer !== undefined)
  const stopped = loop.stop()
  const lost = { alone: 0, shared: 1, counted: false, interrupted: false, firstToTry: true }
  answer?.({
    items: [
      { id: 'fresh', type: 'thing', epoch: 1 },
      { id: 'lost', type: 'thing', epoch: 2, lost },
      { id: 'lost again', type: 'thing', epoch: 3, lost: { ...lost, shared: 2 } },
    ],
    marks: [],
    nextDueMs: null,
  })
  expect(await stopped).toEqual({ abandoned: 0 })
  // Whoever claims them next has to know that a call may have been made: its outcome is unknown still.
  expect(told.toSorted()).toEqual(['expire lost@2 lost again@3', 'interrupted lost@2 lost again@3', 'release fresh@1'])
  expect(told.indexOf('interrupted lost@2 lost again@3')).toBeLessThan(told.indexOf('expire lost@2 lost again@3'))
})
