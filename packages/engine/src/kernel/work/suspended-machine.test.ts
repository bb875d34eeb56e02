import { waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { createWorkLoop } from './loop.js'
import type { Claimed, WorkSource } from './source.js'

const BOTH = 'a worker extends first, and claims no expired leases for one heartbeat'

/** A loop that holds one item for ever, and what it asks of its source. */
function holding({ leaseMs, wallClock }: { readonly leaseMs: number; readonly wallClock?: () => number }) {
  const happened: string[] = []
  let given = false
  const source: WorkSource<Claimed> = {
    model: 'test',
    types: () => ['a'],
    async claim(request) {
      happened.push(request.spareLeased ? 'claim, sparing' : 'claim')
      const items = given ? [] : [{ id: '1', type: 'a', epoch: 1 }]
      given = true
      return { items, marks: [], nextDueMs: null }
    },
    async extend(leases) {
      happened.push('extend')
      return { extended: leases.map(({ id }) => id), lost: [] }
    },
    release: async () => undefined,
    oldestDueSeconds: async () => null,
  }
  let end = () => {}
  const loop = createWorkLoop({
    source,
    run: () => new Promise<void>((resolve) => (end = resolve)),
    worker: 'w',
    concurrency: 2,
    leaseMs,
    pollMs: 5,
    ...(wallClock ? { wallClock } : {}),
  })
  loop.start()
  return {
    happened,
    stop() {
      end()
      return loop.stop()
    },
  }
}

test(`K-03 after its machine was suspended ${BOTH}`, async () => {
  let wall = 0
  const { happened, stop } = holding({ leaseMs: 60_000, wallClock: () => performance.now() + wall })
  await waitFor('it claims', () => happened.length > 2)
  expect(happened).not.toContain('extend')
  wall = 3_600_000
  await waitFor('it spares the leases of others', () => happened.includes('claim, sparing'))
  const from = happened.indexOf('extend')
  expect(happened.slice(from, from + 2)).toEqual(['extend', 'claim, sparing'])
  await stop()
})

test(`K-03 after its process stalled for longer than its lease ${BOTH}`, async () => {
  const leaseMs = 3_000
  const { happened, stop } = holding({ leaseMs })
  await waitFor('it claims', () => happened.length > 2)
  const before = happened.length
  block(leaseMs * 1.5)
  await waitFor('it claims again', () => happened.slice(before).some((one) => one.startsWith('claim')))
  const since = happened.slice(before)
  const claim = since.findIndex((one) => one.startsWith('claim'))
  expect(since[claim]).toBe('claim, sparing')
  expect(since.slice(0, claim)).toContain('extend')
  await stop()
})

/** Blocks the event loop, as a long computation of user code does. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
}
