import { recordPoints, sampled, startWorkerProcess, testDatabase, waitFor } from '@holdfast/testing/internal'
import type { CommandHandle } from 'holdfast'
import { assemble, type Database, openDatabase } from 'holdfast/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BatchDone, Booked, Flaky, handleAll, Plain } from './definitions.js'

const script = new URL('../../dist/commands/worker-process.js', import.meta.url)
const WORKER = { concurrency: 3, lease: '3s', poll: '20ms' } as const

let connectionString: string
let db: Database
beforeAll(async () => {
  ;({ connectionString } = await testDatabase())
  db = await openDatabase({ connectionString })
  await db.run({ name: 'test.booking', text: 'create table booking (command_id uuid not null)' })
})
afterAll(() => db.close())

/** Sends some of each kind, with replies and in a batch; returns their handles and the id of the batch. */
async function sendSome(hf: ReturnType<typeof assemble>) {
  await hf.queues.create('kill_replies')
  const batchId = await hf.batches.open('kills', { onComplete: BatchDone })
  const options = { batch: batchId, replyTo: 'kill_replies' }
  const commands = await Promise.all([
    ...[1, 2].map((n) => hf.send(Plain, n, options)),
    ...[1, 2].map((n) => hf.send(Booked, n, options)),
    hf.send(Flaky, 1, options),
    hf.send(Plain, 3),
  ])
  await hf.batches.seal(batchId)
  return { commands, batchId }
}

async function pointsOfARun(): Promise<readonly string[]> {
  const { faults, points } = recordPoints()
  const recording = await openDatabase({ connectionString, faults })
  const hf = assemble(recording, {})
  handleAll(hf)
  const { batchId } = await sendSome(hf)
  const from = points.length
  await hf.run(WORKER)
  await waitFor('the batch is closed', async () => (await hf.batches.get(batchId)).completedAt)
  await hf.close()
  return [...new Set(points.slice(from))].filter((point) =>
    / (commands\.(receive|finish|hold)|batches\.close|begin|commit)$/.test(point),
  )
}

/** The books of one round (see the issue): every command ends once, with one final reply and an audit in order. */
async function checkBooks(
  hf: ReturnType<typeof assemble>,
  commands: readonly CommandHandle[],
  batchId: string,
  point: string,
) {
  const ids = commands.map(({ id }) => id)
  for (const command of commands) {
    const { status } = await command.get()
    const audit = await command.history()
    const events = audit.map(({ event }) => event)
    expect(status, point).toBe('COMPLETED')
    expect(events[0], point).toBe('SENT')
    expect(events.at(-1), point).toBe('COMPLETED')
    expect(
      events.filter((event) => event === 'COMPLETED'),
      point,
    ).toHaveLength(1)
    expect(
      events.slice(1, -1).every((event) => event === 'RECEIVED' || event === 'RETRY_SCHEDULED'),
      point,
    ).toBe(true)
  }
  const bookings = await db.run<{ command_id: string }>({
    name: 'test.bookings',
    text: 'select command_id from booking',
  })
  const booked = bookings.map((row) => row.command_id)
  expect(new Set(booked).size, point).toBe(booked.length)
  expect(booked, point).toEqual(expect.arrayContaining(ids.slice(2, 4)))
  const replies = await hf.queues.read<{ command_id: string; final: boolean }>('kill_replies', { limit: 100 })
  const final = replies.filter(({ message }) => message.final).map(({ message }) => message.command_id)
  expect(final.sort(), point).toEqual(ids.slice(0, 5).sort())
  await hf.queues.purge('kill_replies')
  expect(await hf.batches.get(batchId), point).toMatchObject({ status: 'COMPLETED', total: 5, completed: 5, failed: 0 })
  const callbacks = (await hf.commands.list({ type: 'BatchDone', correlationId: batchId })).items
  expect(callbacks, point).toMatchObject([{ status: 'COMPLETED' }])
}

test('C-08 a worker killed before or after any statement of receive and finish: the books balance', async () => {
  const points = await pointsOfARun()
  expect(points).toEqual(
    expect.arrayContaining([
      'before commands.receive',
      'after commands.receive',
      'before commands.finish',
      'after commands.finish',
      'after commands.hold',
      'before commit',
      'after commit',
    ]),
  )
  const hf = assemble(await openDatabase({ connectionString }), {})
  handleAll(hf)
  await hf.queues.create('kill_replies')
  await hf.queues.purge('kill_replies')
  const kills = points.flatMap((point) => [1, 2].map((time) => ({ point, time })))
  for (const { point, time } of sampled(kills, 3)) {
    const { commands, batchId } = await sendSome(hf)
    const victim = startWorkerProcess(script, { connectionString, point, time })
    expect(await victim.ended, point).toEqual({ code: null, signal: 'SIGKILL' })
    // The victim's leases.
    await db.run({ name: 'test.end', text: 'update pgmq.q_kills__commands set vt = holdfast.now() where read_ct > 0' })
    const heir = await hf.run(WORKER)
    await waitFor(`all is done after a kill ${point} (${time})`, async () => {
      const [callback] = (await hf.commands.list({ type: 'BatchDone', correlationId: batchId })).items
      return callback?.status === 'COMPLETED' && (await commands[5]?.get())?.status === 'COMPLETED'
    })
    await heir.stop()
    await checkBooks(hf, commands, batchId, `${point} (${time})`)
  }
  await hf.close()
}, 300_000)
