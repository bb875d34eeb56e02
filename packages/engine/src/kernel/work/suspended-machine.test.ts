import { waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { createWorkLoop } from './loop.js'
import type { Claimed, ClaimRequest, WorkSource } from './source.js'

test('K-03 after its machine was suspended a worker extends first, and claims no expired leases for one heartbeat', async () => {
  let wall = 0
  const happened: string[] = []
  const requests: ClaimRequest[] = []
  let given = false
  const source: WorkSource<Claimed> = {
    model: 'test',
    types: () => ['a'],
    async claim(request) {
      requests.push(request)
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
    leaseMs: 60_000,
    pollMs: 5,
    wallClock: () => performance.now() + wall,
  })
  loop.start()
  await waitFor('it claims', () => requests.length > 2)
  expect(happened).not.toContain('extend')
  wall = 3_600_000
  await waitFor('it spares the leases of others', () => happened.includes('claim, sparing'))
  const from = happened.indexOf('extend')
  expect(happened.slice(from, from + 2)).toEqual(['extend', 'claim, sparing'])
  end()
  await loop.stop()
})
