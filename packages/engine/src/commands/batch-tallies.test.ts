import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { createCodec } from '../kernel/codec/codec.js'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineCommand } from './define.js'
import { findBatches } from './queries/find-batches.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domainOf = numbered('tallies')
const by = { actor: 'ann', reason: 'ticket 7' }

function payments() {
  const Pay = defineCommand(domainOf(), 'Pay', { data: z.object({ n: z.number() }) })
  bus.hf.handle(Pay, async ({ n }) => {
    if (n === 0) throw new PermanentError('no such account')
  })
  const work = async (concurrency: number) => {
    const worker = await bus.hf.run({ domains: [Pay.domain], poll: '20ms', concurrency })
    onTestFinished(async () => void (await worker.stop()))
  }
  return { Pay, work }
}

const rowsRead = {
  name: 'test.rows-read',
  text: `
    select (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as rows
    from pg_catalog.pg_stat_xact_user_tables
    where relid = 'holdfast.batch_tally'::regclass`,
}

/** Looks at the batch, and counts the tallies that PostgreSQL has read for it. */
const lookAt = (batchId: string) =>
  bus.db.transaction(async (tx) => {
    const read = async () => (await tx.run<{ rows: number }>(rowsRead))[0]?.rows ?? 0
    const before = await read()
    const [batch] = await findBatches(tx, createCodec(), { batchId, limit: 1 })
    return { batch, rows: (await read()) - before }
  })

test('C-12 reading the status of a batch reads a few tallies, however many items it has', async () => {
  const { Pay, work } = payments()
  const batchId = await bus.hf.batches.open(Pay.domain)
  for (let n = 0; n < 150; n++) await bus.hf.send(Pay, { n }, { batch: batchId })
  const before = await lookAt(batchId)
  expect(before).toMatchObject({ batch: { total: 150, completed: 0 }, rows: 150 })
  // Nothing has ended, so nothing is due: the chore folds them.
  await bus.sql('select holdfast.fold_idle_batches()')
  expect(await lookAt(batchId)).toMatchObject({ batch: { status: 'PENDING', total: 150, completed: 0 }, rows: 0 })
  await work(1)
  await waitFor('all have ended but one', async () => (await bus.hf.batches.get(batchId)).completed === 149)
  await bus.hf.batches.seal(batchId)
  await waitFor('what is due was taken', async () => {
    return (
      (await bus.sql('select from holdfast.batch_tally where batch_id = $1 and due_at is not null', [batchId]))
        .length === 0
    )
  })
  const counts = { total: 150, completed: 149, failed: 0, cancelled: 0, inTroubleshooting: 1 }
  expect(await lookAt(batchId)).toMatchObject({ batch: { status: 'IN_PROGRESS', ...counts }, rows: 0 })
  const [troubled] = (await bus.hf.trouble.list({ model: 'commands', domain: Pay.domain })).items
  await bus.hf.command(Pay, troubled?.id ?? '').cancel(by)
  const closed = await waitFor('it is closed', async () => {
    const { batch } = await lookAt(batchId)
    return batch?.completedAt ? batch : undefined
  })
  expect(closed).toMatchObject({ status: 'COMPLETED_WITH_FAILURES', ...counts, cancelled: 1, inTroubleshooting: 0 })
})

test('C-12 counts are exact while items join and end and tallies are folded by many at once', async () => {
  const { Pay, work } = payments()
  const batchId = await bus.hf.batches.open(Pay.domain)
  await work(20)
  let over = false
  const senders = Array.from({ length: 8 }, async (_, sender) => {
    for (let n = 1; n <= 40; n++) await bus.hf.send(Pay, { n: sender * 100 + n }, { batch: batchId })
  })
  const folders = ['holdfast.close_batches(2)', 'holdfast.close_batches(3)', 'holdfast.fold_idle_batches()'].map(
    async (call) => {
      while (!over) await bus.sql(`select ${call}`)
    },
  )
  const looker = async () => {
    let last = { total: 0, completed: 0 }
    while (!over) {
      const { total, completed } = await bus.hf.batches.get(batchId)
      // Each look is one snapshot: what has ended was there, and no count goes back.
      expect(completed).toBeLessThanOrEqual(total)
      expect(total).toBeGreaterThanOrEqual(last.total)
      expect(completed).toBeGreaterThanOrEqual(last.completed)
      last = { total, completed }
    }
  }
  const looking = Promise.all([looker(), looker()])
  try {
    await Promise.all(senders)
    await bus.hf.batches.seal(batchId)
    await waitFor('it is closed', async () => (await bus.hf.batches.get(batchId)).completedAt !== null)
  } finally {
    over = true
    await Promise.all([...folders, looking])
  }
  expect(await bus.hf.batches.get(batchId)).toMatchObject({
    status: 'COMPLETED',
    total: 320,
    completed: 320,
    failed: 0,
  })
  await waitFor('no tally is left', async () => {
    return (await bus.sql('select from holdfast.batch_tally where batch_id = $1', [batchId])).length === 0
  })
})
