import { expect, test } from 'vitest'
import { silentLogger } from '../logger.js'
import { noMetrics } from '../metrics/metrics.js'
import { createLeases } from './leases.js'
import type { Claimed, WorkSource } from './source.js'

const unused = () => Promise.reject(new Error('not part of this test'))

function leasesOf(extend: WorkSource<Claimed>['extend']) {
  const source = { model: 'tests', types: () => [], claim: unused, extend, release: unused, oldestDueSeconds: unused }
  return createLeases<Claimed>({ source, leaseMs: 1_000, logger: silentLogger, metrics: noMetrics })
}

const item = (id: string): Claimed => ({ id, type: 'a', epoch: 3 })

test('K-03 a heartbeat aborts the code of a lease that another worker has, and no other code', async () => {
  const leases = leasesOf(async () => ({ extended: ['kept'], lost: ['lost'] }))
  const [kept, lost, skipped] = ['kept', 'lost', 'skipped'].map((id) => leases.take(item(id), performance.now()))
  expect(await leases.beat(true)).toEqual({ skipped: 1 })
  expect([kept?.aborted, lost?.aborted, skipped?.aborted]).toEqual([false, true, false])
  expect(lost?.signal.reason).toMatchObject({ code: 'HF_LEASE_LOST' })
  expect(leases.refs().map(({ id }) => id)).toEqual(['kept', 'skipped'])
})
