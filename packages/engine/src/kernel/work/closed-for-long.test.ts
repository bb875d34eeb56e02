import { gate as barrier, waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { createGate, type Gate } from './alone.js'
import { createWorkLoop } from './loop.js'
import type { Claimed, WorkSource } from './source.js'

/** Items that workers share, as processes share a table. Each claim waits for what it is told to. */
function sharedItems(all: readonly Claimed[]) {
  const due = [...all]
  const company: string[] = []
  const sourceFor = (mayClaim: Promise<void>): WorkSource<Claimed> => ({
    model: 'tests',
    types: () => ['a'],
    async claim({ limit }) {
      await mayClaim
      return { items: due.splice(0, limit), marks: [], nextDueMs: null }
    },
    extend: async (leases) => ({ extended: leases.map(({ id }) => id), lost: [] }),
    release: async (leases) => void due.push(...all.filter(({ id }) => leases.some((lease) => lease.id === id))),
    losses: {
      begun: async (_, state) => void company.push(state),
      forget: async () => undefined,
      interrupted: async () => undefined,
      expire: async () => undefined,
    },
    oldestDueSeconds: async () => null,
  })
  return { sourceFor, company }
}

const work = (source: WorkSource<Claimed>, gate: Gate, run: (item: Claimed) => Promise<void>) => {
  const loop = createWorkLoop({ source, gate, run, worker: 'w', concurrency: 30, leaseMs: 300, pollMs: 20 })
  loop.start()
  return loop
}

test('K-26 work that was claimed beside an item that is alone for more than a minute is released to other workers meanwhile', async () => {
  const lost = { alone: 0, shared: 9, counted: false, interrupted: false, firstToTry: true }
  const suspects = sharedItems([{ id: 'suspect', type: 'a', epoch: 10, lost }])
  const good = sharedItems(Array.from({ length: 20 }, (_, n) => ({ id: `good ${n}`, type: 'a', epoch: 1 })))
  const [suspect, claim] = [barrier(), barrier()]
  const ran = { here: [] as string[], elsewhere: [] as string[] }
  const here = createGate()
  const loops = [
    work(good.sourceFor(claim.passed), here, async ({ id }) => void ran.here.push(id)),
    work(suspects.sourceFor(Promise.resolve()), here, () => suspect.passed),
  ]
  await waitFor('the suspect is alone', () => suspects.company.includes('alone'))
  // A claim that was under way when the turn began brings work that may not begin here.
  claim.open()
  await new Promise(setImmediate)
  loops.push(work(good.sourceFor(Promise.resolve()), createGate(), async ({ id }) => void ran.elsewhere.push(id)))
  await waitFor('all others have run', () => ran.elsewhere.length === 20)
  expect({ here: ran.here, company: suspects.company }).toEqual({ here: [], company: ['alone'] })
  suspect.open()
  await Promise.all(loops.map((loop) => loop.stop()))
})
