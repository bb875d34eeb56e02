import { countStatements, gate, holdAt, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '20ms' })
  await bus.sql('create table booking (command_id uuid, note text)')
})
afterAll(() => bus.close())

const bookings = async (id: string) => {
  const rows = await bus.sql<{ note: string }>('select note from booking where command_id = $1 order by note', [id])
  return rows.map(({ note }) => note)
}
const book = 'insert into booking values ($1, $2)'

test('C-06 the rows of a handler commit together with the completion of its command', async () => {
  const Do = defineCommand('tx', 'Do')
  await bus.work(Do, (_, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(book, [ctx.commandId, 'once'])
      return { reference: ctx.commandId }
    }),
  )
  const { id } = await bus.hf.send(Do, null)
  expect(await bus.hf.command(Do, id).result()).toEqual({ reference: id })
  expect(await bookings(id)).toEqual(['once'])
  const [row] = await bus.sql<{ together: boolean }>(
    `select booking.xmin::text = command.xmin::text as together
     from booking join holdfast.command using (command_id) where command_id = $1`,
    [id],
  )
  expect(row?.together).toBe(true)
  expect(await bus.events(id)).toEqual(['SENT', 'RECEIVED', 'COMPLETED'])
})

test('C-06 an attempt that throws rolls its rows back, and the next attempt writes them once', async () => {
  const Do = defineCommand('tx-again', 'Do', { retry: ['1ms'] })
  await bus.work(Do, (_, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(book, [ctx.commandId, `attempt ${ctx.attempt}`])
      if (ctx.attempt === 1) throw new Error('after the insert')
      return null
    }),
  )
  const { id } = await bus.hf.send(Do, null)
  await bus.hf.command(Do, id).result()
  expect(await bookings(id)).toEqual(['attempt 2'])
  expect(await bus.events(id)).toEqual(['SENT', 'RECEIVED', 'RETRY_SCHEDULED', 'RECEIVED', 'COMPLETED'])
})

test('C-06 what the handler does after its transaction does not change the result', async () => {
  const Do = defineCommand('tx-after', 'Do')
  await bus.work(Do, async (_, ctx) => {
    await ctx.transaction(async () => 'from the transaction')
    throw new Error('too late to fail')
  })
  const { id } = await bus.hf.send(Do, null)
  expect(await bus.hf.command(Do, id).result()).toBe('from the transaction')
  expect(await bus.events(id)).toEqual(['SENT', 'RECEIVED', 'COMPLETED'])
})

test('C-06 a second transaction of one attempt is refused and leaves nothing', async () => {
  const Do = defineCommand('tx-twice', 'Do')
  let second: unknown
  await bus.work(Do, async (_, ctx) => {
    const write = (note: string) =>
      ctx.transaction(async (tx) => {
        await tx.query(book, [ctx.commandId, note])
        return note
      })
    await write('first')
    second = await write('second').catch((error) => error)
    return 'ignored'
  })
  const { id } = await bus.hf.send(Do, null)
  expect(await bus.hf.command(Do, id).result()).toBe('first')
  await waitFor('the second was tried', () => second)
  expect(second).toMatchObject({ code: 'HF_LEASE_LOST' })
  expect(await bookings(id)).toEqual(['first'])
})

test('C-06 with its lease lost, an attempt writes nothing', async () => {
  const Do = defineCommand('tx-lost', 'Do')
  let outcome: unknown
  let calls = 0
  await bus.work(Do, async (_, ctx) => {
    calls += 1
    if (calls > 1) return 'the second'
    // Somebody else receives it meanwhile: the message is read once more.
    await bus.sql('update pgmq."q_tx-lost__commands" set read_ct = read_ct + 1, vt = holdfast.now()')
    outcome = await ctx.transaction((tx) => tx.query(book, [ctx.commandId, 'zombie'])).catch((error) => error)
    return 'the zombie'
  })
  const { id } = await bus.hf.send(Do, null)
  expect(await bus.hf.command(Do, id).result()).toBe('the second')
  await waitFor('the first was refused', () => outcome)
  expect(outcome).toMatchObject({ code: 'HF_LEASE_LOST' })
  expect(await bookings(id)).toEqual([])
})

test('C-06 a worker that was frozen while another finished the command cannot finish it again', async () => {
  const held = holdAt('before commands.finish')
  const frozen = await openTestBus({ connectionString: bus.connectionString, faults: held.faults })
  const Do = defineCommand('zombie', 'Do')
  const zombie = await frozen.work(Do, () => 'the zombie', { concurrency: 1 })
  const { id } = await bus.hf.send(Do, null)
  await held.reached
  await bus.sql('update pgmq.q_zombie__commands set vt = holdfast.now()')
  await bus.work(Do, () => 'the successor')
  expect(await bus.hf.command(Do, id).result()).toBe('the successor')
  held.release()
  await zombie.stop()
  expect((await bus.hf.command(Do, id).get()).result).toBe('the successor')
  expect((await bus.events(id)).filter((event) => event === 'COMPLETED')).toHaveLength(1)
  await frozen.close()
})

test('C-06 a handler past its time limit can no longer complete its command', async () => {
  const Do = defineCommand('tx-late', 'Do', { timeout: '20ms', retry: ['10m'] })
  let late: unknown
  await bus.work(Do, async (_, ctx) => {
    await waitFor('the retry is scheduled', async () => (await bus.events(ctx.commandId)).includes('RETRY_SCHEDULED'))
    late = await ctx.transaction((tx) => tx.query(book, [ctx.commandId, 'late'])).catch((error) => error)
  })
  const { id } = await bus.hf.send(Do, null)
  await waitFor('the handler went on', () => late)
  expect(late).toMatchObject({ code: 'HF_LEASE_LOST' })
  expect(await bookings(id)).toEqual([])
  expect((await bus.hf.command(Do, id).get()).status).toBe('PENDING')
})

test('C-06 heartbeats skip a message that its own transaction has locked, and no other worker claims it', async () => {
  const Do = defineCommand('tx-long', 'Do')
  const [own, others] = [countStatements(), countStatements()]
  const { connectionString } = bus
  const holder = await openTestBus({ connectionString, faults: own.faults })
  const other = await openTestBus({ connectionString, faults: others.faults })
  onTestFinished(() => Promise.all([holder.close(), other.close()]).then(() => undefined))
  const end = gate()
  let isHeld = false
  await holder.work(
    Do,
    (_, ctx) =>
      ctx.transaction(async () => {
        isHeld = true
        await end.passed
        return ctx.attempt
      }),
    { lease: '3s' },
  )
  const { id } = await bus.hf.send(Do, null)
  await waitFor('its transaction holds it', () => isHeld)
  const count = ({ counts }: typeof own, name: string) => counts.get(name) ?? 0
  const before = count(own, 'commands.extend')
  // By the clock its lease has ended: others who look for it find it due, and held.
  await bus.moveClock(10_000)
  await other.work(Do, () => 'stolen', { lease: '3s' })
  await waitFor('another has looked for it', () => count(others, 'commands.receive') > 2)
  await waitFor('heartbeats have passed over it', () => count(own, 'commands.extend') > before + 1)
  end.open()
  expect(await bus.hf.command(Do, id).result()).toBe(1)
})

test('K-15 commands sent inside the transaction of a handler are committed with it', async () => {
  const First = defineCommand('chain', 'First', { retry: ['1ms'] })
  const Second = defineCommand('chain', 'Second')
  const sent: string[] = []
  bus.hf.handle(Second, () => 'second')
  await bus.work(First, (_, ctx) =>
    ctx.transaction(async (transaction) => {
      sent.push((await bus.hf.send(Second, null, { transaction })).id)
      if (ctx.attempt === 1) throw new Error('not yet')
      return 'first'
    }),
  )
  await (await bus.hf.send(First, null)).result()
  const [never, once] = sent
  expect(await bus.hf.command(Second, once ?? '').result()).toBe('second')
  await expect(bus.hf.command(Second, never ?? '').get()).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
})

test('C-06 a result that cannot be stored rolls the transaction back, and only that command fails', async () => {
  const Do = defineCommand('tx-result', 'Do')
  await bus.work(Do, (bad, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(book, [ctx.commandId, 'x'])
      return bad ? Symbol('no JSON') : 'fine'
    }),
  )
  const { id: bad } = await bus.hf.send(Do, true)
  const { id: fine } = await bus.hf.send(Do, false)
  expect(await bus.hf.command(Do, fine).result()).toBe('fine')
  await waitFor(
    'the bad one is in troubleshooting',
    async () => (await bus.hf.trouble.count({ model: 'commands', domain: 'tx-result' })) === 1,
  )
  expect((await bus.hf.command(Do, bad).get()).error).toMatchObject({ code: 'RESULT_NOT_ENCODABLE' })
  expect(await bookings(bad)).toEqual([])
})

test('a pool of one connection is enough, also for a send inside a transaction of a handler', async () => {
  const small = await openTestBus({ connectionString: bus.connectionString, poolSize: 1 })
  const First = defineCommand('small', 'First')
  const Second = defineCommand('small', 'Second')
  small.hf.handle(Second, (data) => data)
  await small.work(First, (_, ctx) =>
    ctx.transaction(async (transaction) => (await small.hf.send(Second, 'on', { transaction })).id),
  )
  const second = await (await small.hf.send(First, null)).result()
  expect(await small.hf.command(Second, String(second)).result()).toBe('on')
  await small.close()
})

test('K-23 a handler that hangs in its transaction is rolled back when its time is over: row, connection and slot are free', async () => {
  const hanging = await openTestBus({ connectionString: bus.connectionString, abortGrace: '20ms', poolSize: 3 })
  onTestFinished(() => hanging.close())
  const Do = defineCommand('tx-hangs', 'Do', {
    transactionTimeout: '3s',
    retry: { maxAttempts: 2, delays: ['1ms'] },
  })
  const signals: AbortSignal[] = []
  let after: unknown
  hanging.hf.handle(Do, (_, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(book, [ctx.commandId, `attempt ${ctx.attempt}`])
      if (ctx.attempt === 2) return 'second'
      signals.push(ctx.signal)
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))
      after = await tx.query(book, [ctx.commandId, 'too late']).catch((error) => error)
      await new Promise(() => undefined)
      return 'never'
    }),
  )
  await hanging.hf.run({ domains: ['tx-hangs'], poll: '20ms', concurrency: 1 })
  const { id } = await hanging.hf.send(Do, null)
  expect(await hanging.hf.command(Do, id).result()).toBe('second')
  expect(signals[0]?.reason).toMatchObject({ code: 'TIMEOUT' })
  expect(after).toMatchObject({ name: 'HoldfastError' })
  expect(await bookings(id)).toEqual(['attempt 2'])
  const audit = await hanging.hf.command(Do, id).history()
  expect(audit.find(({ event }) => event === 'RETRY_SCHEDULED')?.detail).toMatchObject({ error_code: 'TIMEOUT' })
})

test('K-23 close returns while a handler hangs in its transaction', async () => {
  const closing = await openTestBus({ connectionString: bus.connectionString, abortGrace: '20ms' })
  const Do = defineCommand('tx-closes', 'Do')
  const begun = gate()
  closing.hf.handle(Do, (_, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(book, [ctx.commandId, 'never'])
      begun.open()
      return new Promise(() => undefined)
    }),
  )
  const worker = await closing.hf.run({ domains: ['tx-closes'], poll: '20ms' })
  const { id } = await closing.hf.send(Do, null)
  await begun.passed
  expect(await worker.stop('50ms')).toEqual({ abandoned: 1 })
  await closing.close()
  expect(await bookings(id)).toEqual([])
})

test('C-06 a transaction that failed by itself can be tried again in the same call', async () => {
  const Do = defineCommand('tx-second-try', 'Do')
  await bus.work(Do, async (_, ctx) => {
    await ctx.transaction((tx) => tx.query('select 1 / 0').then(() => null)).catch(() => undefined)
    return ctx.transaction(async (tx) => {
      await tx.query(book, [ctx.commandId, 'second try'])
      return 'done'
    })
  })
  const { id } = await bus.hf.send(Do, null)
  expect(await bus.hf.command(Do, id).result()).toBe('done')
  expect(await bookings(id)).toEqual(['second try'])
})
