import { randomUUID } from 'node:crypto'
import { type FaultProxy, gate, openTestBus, startFaultProxy, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from './define.js'

// What becomes of sends whose connection breaks, or whose answer is lost after the commit (C-03, C-04, K-05).

let direct: TestBus
let bus: TestBus
let proxy: FaultProxy
let onSend: ((sent: number) => void | Promise<void>) | undefined
let sent = 0
beforeAll(async () => {
  direct = await openTestBus()
  proxy = await startFaultProxy(direct.connectionString)
  bus = await openTestBus({
    connectionString: proxy.connectionString,
    faults: (point) => {
      if (point !== 'before commands.send') return
      sent += 1
      return onSend?.(sent)
    },
  })
})
afterAll(async () => {
  await bus.close()
  await proxy.close()
  await direct.close()
})

const inQueue = async (domain: string) =>
  (
    await direct.sql<{ n: number }>(
      `select (message -> 'data' ->> 'n')::int as n from pgmq."q_${domain}__commands" order by 1`,
    )
  ).map(({ n }) => n)
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)
/** The whole request: `begin isolation level read committed` is another. */
const COMMIT = 'commit\u0000'

describe('C-03 sendMany with an asynchronous schema', () => {
  /** Cuts the connection before a chunk is sent; the data of the next chunk is still being parsed when that is repeated. */
  function cutBefore(chunk: number) {
    const repeated = gate()
    sent = 0
    onSend = (count) => {
      if (count === chunk) proxy.cut()
      if (count === 2 * chunk) repeated.open()
    }
    return async (n: number) => {
      if (n === chunk * 1_000 + 500) await repeated.passed
    }
  }

  test.each([1, 2, 3, 4])(
    'C-03 a connection cut before chunk %i: each of 5,000 commands is sent exactly once',
    async (chunk) => {
      const parsing = cutBefore(chunk)
      const Pay = defineCommand(`cut_${chunk}`, 'Pay', {
        data: z.object({ n: z.number() }).refine(async ({ n }) => {
          await parsing(n)
          return true
        }),
      })
      const ids = (
        await bus.hf.sendMany(
          Pay,
          numbers(5_000).map((n) => ({ data: { n } })),
        )
      ).map(({ id }) => id)
      onSend = undefined
      expect(sent).toBe(5 + chunk)
      expect(new Set(ids).size).toBe(5_000)
      expect(await inQueue(Pay.domain)).toEqual(numbers(5_000))
      const places = await direct.sql<{ command_id: string; n: number }>(
        `select command_id, (data ->> 'n')::int as n from holdfast.command where domain = $1`,
        [Pay.domain],
      )
      const placeOf = new Map(places.map(({ command_id, n }) => [command_id, n]))
      expect(ids.map((id) => placeOf.get(id))).toEqual(numbers(5_000))
    },
  )

  test('C-03 data that is refused while an earlier chunk is repeated refuses the whole call', async () => {
    const parsing = cutBefore(1)
    const Pay = defineCommand('cut_refused', 'Pay', {
      data: z.object({ n: z.number() }).refine(async ({ n }) => {
        await parsing(n)
        return n !== 1_500
      }),
    })
    const sending = bus.hf.sendMany(
      Pay,
      numbers(3_000).map((n) => ({ data: { n } })),
    )
    await expect(sending).rejects.toMatchObject({
      code: 'HF_INVALID_DATA',
      message: expect.stringContaining('commands[1500]'),
    })
    onSend = undefined
    expect(await inQueue(Pay.domain)).toEqual([])
  })
})

describe('K-05 an answer that was lost', () => {
  test('C-03 sendMany recognises its own commit, also when a worker has finished some of it meanwhile', async () => {
    const Pay = defineCommand('lost_commit', 'Pay', { data: z.object({ n: z.number() }) })
    const finished: number[] = []
    await bus.hf.send(Pay, { n: -1 })
    const own = randomUUID()
    const swallowed = proxy.swallowAnswerTo(COMMIT)
    const sending = bus.hf.sendMany(Pay, [
      { data: { n: 0 }, id: own },
      ...numbers(1_500).map((n) => ({ data: { n: n + 1 } })),
    ])
    const meanwhile = swallowed.then(async () => {
      proxy.refuse(true)
      await direct.work(Pay, ({ n }) => void finished.push(n), { concurrency: 50 })
      await waitFor('all are finished', () => finished.length === 1_502)
      proxy.refuse(false)
    })
    const ids = (await sending).map(({ id }) => id)
    await meanwhile
    expect(ids[0]).toBe(own)
    expect(finished.toSorted((a, b) => a - b)).toEqual(numbers(1_502).map((n) => n - 1))
    await waitFor('the queue is empty', async () => (await inQueue('lost_commit')).length === 0)
    expect((await direct.hf.commands.list({ domain: 'lost_commit', limit: 2_000 })).items).toHaveLength(1_502)
  })

  test.each([
    ['with an id of its own', () => randomUUID()],
    ['with an id that we make', () => undefined],
  ])('C-04 a send %s is no duplicate of itself when its command has ended meanwhile', async (_, id) => {
    const commandId = id()
    const Pay = defineCommand(`lost_send_${commandId === undefined ? 'ours' : 'own'}`, 'Pay')
    await bus.hf.send(Pay, 0)
    const finished: unknown[] = []
    await direct.work(Pay, (data) => void finished.push(data))
    await waitFor('the first is finished', () => finished.length === 1)
    const swallowed = proxy.swallowAnswerTo('nobody hears')
    const sending = bus.hf.send(Pay, 'nobody hears', commandId === undefined ? {} : { id: commandId })
    const meanwhile = swallowed.then(async () => {
      proxy.refuse(true)
      await waitFor(
        'it is finished',
        async () => (await direct.hf.commands.list({ domain: Pay.domain, status: 'COMPLETED' })).items.length === 2,
      )
      proxy.refuse(false)
    })
    const { id: sentId, created } = await sending
    await meanwhile
    expect(created).toBe(true)
    if (commandId !== undefined) expect(sentId).toBe(commandId)
    expect(finished).toEqual([0, 'nobody hears'])
    if (commandId !== undefined) {
      await expect(bus.hf.send(Pay, 2, { id: commandId })).rejects.toMatchObject({ code: 'HF_DUPLICATE_COMMAND' })
    }
  })

  test('C-12 a batch that was created whole is not created twice, and not refused as its own duplicate', async () => {
    const Pay = defineCommand('lost_batch', 'Pay')
    await bus.hf.send(Pay, 0)
    const batchId = randomUUID()
    const swallowed = proxy.swallowAnswerTo(COMMIT)
    const creating = bus.hf.batches.create(Pay, [{ data: 1 }, { data: 2 }], { id: batchId })
    await swallowed
    expect(await creating).toBe(batchId)
    expect(await direct.hf.batches.get(batchId)).toMatchObject({ total: 2, sealed: true })
    expect((await direct.hf.commands.list({ domain: 'lost_batch' })).items).toHaveLength(3)
    await expect(bus.hf.batches.create(Pay, [{ data: 1 }], { id: batchId })).rejects.toMatchObject({
      code: 'HF_DUPLICATE_BATCH',
    })
    const opening = proxy.swallowAnswerTo('nobody hears')
    const another = bus.hf.batches.open('lost_batch', { name: 'nobody hears' })
    await opening
    expect(await direct.hf.batches.get(await another)).toMatchObject({ total: 0, sealed: false })
  })
})
