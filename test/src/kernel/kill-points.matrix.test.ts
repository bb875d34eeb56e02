import { recordPoints, sampled, startWorkerProcess, waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { enqueueTiny, tinyBooks, tinyWorker, tinyWorkerScript } from '../tiny-model/index.js'
import { tinyDatabase } from './tiny-database.js'

const ITEMS = 6

/** The points that a worker passes from its first claim to its last record; found by passing them once. */
async function pointsOfARun(): Promise<readonly string[]> {
  const { db, open } = await tinyDatabase()
  await enqueueTiny(db, 'a', ITEMS)
  const { faults, points } = recordPoints()
  const worker = tinyWorker(await open({ faults }), { worker: 'recorder', leaseMs: 300, workMs: 250, pollMs: 20 })
  worker.loop.start()
  await waitFor('all are done', async () => (await tinyBooks(db)).done === ITEMS)
  await worker.close()
  return [...new Set(points)].filter((point) => point.includes('tiny.'))
}

test('K-02 a worker killed before or after any of its statements loses nothing and records nothing twice', async () => {
  const points = await pointsOfARun()
  expect(points).toEqual(
    expect.arrayContaining(
      ['tiny.claim', 'tiny.effect', 'tiny.extend', 'tiny.finish'].flatMap((name) => [
        `before ${name}`,
        `after ${name}`,
      ]),
    ),
  )
  const { db, connectionString } = await tinyDatabase()
  const options = { connectionString, leaseMs: 300, workMs: 250, pollMs: 20 }
  for (const [n, point] of sampled(points, 3).entries()) {
    const before = await tinyBooks(db)
    await enqueueTiny(db, 'a', ITEMS)
    const victim = startWorkerProcess(tinyWorkerScript, {
      ...options,
      worker: `victim ${n}`,
      dieAt: { point, time: 1 },
    })
    expect(await victim.ended, point).toEqual({ code: null, signal: 'SIGKILL' })
    const heir = tinyWorker(db, { worker: `heir ${n}`, leaseMs: 1_000, pollMs: 20 })
    heir.loop.start()
    await waitFor(`all are done after a kill ${point}`, async () => (await tinyBooks(db)).done === before.done + ITEMS)
    await heir.close()
    const after = await tinyBooks(db)
    expect(after.audits, point).toBe(after.done)
    // Repeated are at most those whose record had not been taken when the victim died.
    expect(after.repeated - before.repeated, point).toBeLessThanOrEqual(ITEMS)
  }
}, 120_000)
