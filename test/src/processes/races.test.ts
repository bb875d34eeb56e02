import { type Faults, holdAt, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { defineProcess } from 'holdfast'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'

const WORKER = { lease: '2s', poll: '20ms' } as const

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

/** The same installation through a connection pool of its own, which a test may hold up. */
const another = (faults?: Faults) =>
  openTestBus({ connectionString: bus.connectionString, ...(faults ? { faults } : {}) })

interface Row {
  readonly status: string
  readonly error_code: string | null
  readonly state: Record<string, unknown> | null
  readonly result: unknown
  readonly responses: number
  readonly waiting_for: string | null
}

async function look(id: string): Promise<Row> {
  const [row] = await bus.sql<Row>(
    `select status, error_code, projection as state, result, responses, waiting_for
     from holdfast.process join holdfast.process_detail using (id) where id = $1`,
    [id],
  )
  if (!row) throw new Error(`no process ${id}`)
  return row
}

const until = (id: string, status: string) =>
  waitFor(`${id} is ${status}`, async () => {
    const row = await look(id)
    return row.status === status ? row : undefined
  })

const isWaiting = (id: string) => waitFor(`${id} waits`, async () => (await look(id)).status === 'WAITING_FOR_ASYNC')

const records = async (id: string) => {
  const rows = await bus.sql<{ what: string }>(
    `select kind || ' ' || name || ' ' || status || case when detail ->> 'timedOut' = 'true' then ' late' else '' end as what
     from holdfast.process_history where process_id = $1 order by seq`,
    [id],
  )
  return rows.map(({ what }) => what)
}

const cancel = async (id: string) => {
  const [row] = await bus.sql<{ answer: string }>(
    `select holdfast.cancel_process($1, 'PLAIN', 'an operator', 'a test') as answer`,
    [id],
  )
  return row?.answer
}

/** And a second more: an execution's own clock is behind the database's by the time that its claim was on its way. */
const passed = (id: string, column: 'deadline_at' | 'due_at') =>
  waitFor(`${column} of ${id} has passed`, async () => {
    const [row] = await bus.sql<{ over: boolean }>(
      `select ${column} + interval '1 s' < holdfast.now() as over from holdfast.process where id = $1`,
      [id],
    )
    return row?.over
  })

function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open: () => open(), opened }
}

const answers = {
  answer: {
    data: z.object({ n: z.number() }),
    apply: (state: { answers: number[] }, { n }: { n: number }) => void state.answers.push(n),
  },
}
const state = z.object({ answers: z.array(z.number()).default([]) })

test('P-11 a hundred responses at once from four connections: none is lost, none is applied twice', async () => {
  const Crowd = defineProcess('crowd', 'Crowd', {
    state,
    responses: answers,
    async execute(ctx, { answers }) {
      await ctx.wait('fifty', () => answers.length >= 50)
      await ctx.wait('all', () => answers.length === 100)
      return answers.length
    },
  })
  bus.hf.register(Crowd)
  const worker = await bus.hf.run({ domains: ['crowd'], ...WORKER })
  const { id } = await bus.hf.start(Crowd, {}, { immediate: false })
  const connections = await Promise.all([1, 2, 3, 4].map(() => another()))
  await Promise.all(
    Array.from({ length: 100 }, (_, n) => n).flatMap((n) =>
      // Each twice, from two connections at the same time.
      [n, n + 1].map((from) =>
        connections[from % 4]?.hf.process(Crowd, id).respond('answer', { n }, { responseId: `answer ${n}` }),
      ),
    ),
  )
  const { result, responses, state: end } = await until(id, 'COMPLETED')
  expect({ result, responses }).toEqual({ result: 100, responses: 100 })
  const heard = end?.answers as number[]
  expect(heard.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, n) => n))
  const numbers = await bus.sql<{ number: number; n: number }>(
    `select number, (data ->> 'n')::int as n from holdfast.process_response where process_id = $1 order by number`,
    [id],
  )
  // Met in the order of their numbers, which have no gap.
  expect(numbers.map(({ number }) => number)).toEqual(Array.from({ length: 100 }, (_, n) => n + 1))
  expect(numbers.map(({ n }) => n)).toEqual(heard)
  await worker.stop()
  await Promise.all(connections.map((connection) => connection.close()))
})

const Patient = (domain: string, timeout: '1h' | '100ms', onTimeout: 'tsq' | 'return') =>
  defineProcess(domain, 'Patient', {
    state,
    responses: answers,
    async execute(ctx, { answers }) {
      return ctx.wait('answer', () => answers.length > 0, { timeout, onTimeout })
    },
  })

test('P-11 a response that arrives while its process suspends is applied: no wake-up is lost', async () => {
  const rest = holdAt('before processes.write')
  const slow = await another(rest.faults)
  const Waiting = Patient('about-to-rest', '1h', 'tsq')
  slow.hf.register(Waiting)
  const { id } = await bus.hf.start(Waiting, {}, { immediate: false })
  await slow.hf.run({ domains: ['about-to-rest'], ...WORKER })
  await rest.reached
  await bus.hf.process(Waiting, id).respond('answer', { n: 1 })
  rest.release()
  expect(await until(id, 'COMPLETED')).toMatchObject({ result: true, responses: 1 })
  expect((await records(id)).at(-1)).toBe('WAIT answer COMPLETED')
  await slow.close()
})

test.each([
  { domain: 'late-answer', onTimeout: 'tsq', status: 'WAITING_FOR_TSQ' },
  { domain: 'late-answer-returned', onTimeout: 'return', status: 'COMPLETED' },
] as const)(
  'P-03 a response that comes while its wait times out ($onTimeout): the timeout wins, the response is recorded',
  async ({ domain, onTimeout, status }) => {
    const Waiting = Patient(domain, '100ms', onTimeout)
    const { id } = await bus.hf.start(Waiting, {})
    await passed(id, 'due_at')
    const write = holdAt('before processes.write')
    const slow = await another(write.faults)
    slow.hf.register(Waiting)
    await slow.hf.run({ domains: [domain], ...WORKER })
    await write.reached
    await bus.hf.process(Waiting, id).respond('answer', { n: 1 })
    write.release()
    expect(await until(id, status)).toMatchObject({ responses: 1, result: onTimeout === 'return' ? false : null })
    expect((await records(id)).slice(0, 2)).toEqual([
      'WAIT answer STARTED',
      `WAIT answer ${onTimeout === 'return' ? 'COMPLETED' : 'FAILED'} late`,
    ])
    await slow.close()
  },
)

test('P-03 a response that came before a worker evaluated the timeout: the response wins', async () => {
  const Waiting = Patient('early-answer', '100ms', 'tsq')
  const { id } = await bus.hf.start(Waiting, {})
  await passed(id, 'due_at')
  await bus.hf.process(Waiting, id).respond('answer', { n: 1 })
  bus.hf.register(Waiting)
  const worker = await bus.hf.run({ domains: ['early-answer'], ...WORKER })
  expect(await until(id, 'COMPLETED')).toMatchObject({ result: true })
  expect(await records(id)).toEqual(['WAIT answer STARTED', 'WAIT answer COMPLETED'])
  await worker.stop()
})

/** One step that a test holds, and perhaps another after it. */
function held(domain: string, second: boolean) {
  const step = gate()
  const called: string[] = []
  const Held = defineProcess(domain, 'Held', {
    state: z.object({}),
    deadlineAction: 'fail',
    async execute(ctx) {
      await ctx.step('first', async ({ signal }) => {
        called.push('first')
        signal.addEventListener('abort', () => called.push('aborted'))
        await step.opened
      })
      if (second) await ctx.step('second', () => called.push('second'))
      return 'done'
    },
  })
  const running = waitFor('the step runs', () => called.length > 0)
  return { Held, called, running, finish: step.open }
}

test('P-15 a deadline that passes during the last step: completion wins', async () => {
  const { Held, called, running, finish } = held('deadline-last', false)
  const started = bus.hf.start(Held, {}, { deadline: '100ms' })
  await running
  const [{ id } = { id: '' }] = await bus.sql<{ id: string }>(
    `select id from holdfast.process where type = 'deadline-last/Held'`,
  )
  await passed(id, 'deadline_at')
  finish()
  expect(await (await started).get()).toMatchObject({ id, status: 'COMPLETED' })
  expect(await look(id)).toMatchObject({ status: 'COMPLETED', result: 'done', error_code: null })
  expect(called).toEqual(['first'])
})

test('P-15 a deadline that passes before the next step: the deadline wins, and what ran is recorded', async () => {
  const { Held, called, running, finish } = held('deadline-next', true)
  const started = bus.hf.start(Held, {}, { deadline: '100ms' })
  await running
  const [{ id } = { id: '' }] = await bus.sql<{ id: string }>(
    `select id from holdfast.process where type = 'deadline-next/Held'`,
  )
  await passed(id, 'deadline_at')
  finish()
  expect(await (await started).get()).toMatchObject({ status: 'FAILED' })
  expect(await look(id)).toMatchObject({ status: 'FAILED', error_code: 'DEADLINE_EXCEEDED', result: null })
  expect(await records(id)).toEqual(['STEP first COMPLETED'])
  expect(called).toEqual(['first'])
})

test('P-16 a cancel during a step: its signal fires, its end is recorded, and the process is cancelled', async () => {
  const { Held, called, running, finish } = held('cancel-during', true)
  bus.hf.register(Held)
  const worker = await bus.hf.run({ domains: ['cancel-during'], ...WORKER })
  const { id } = await bus.hf.start(Held, {}, { immediate: false })
  await running
  expect(await cancel(id)).toBe('done')
  await waitFor('the signal has fired', () => called.includes('aborted'))
  finish()
  expect(await until(id, 'CANCELLED')).toMatchObject({ result: null })
  expect(await records(id)).toEqual(['STEP first COMPLETED'])
  expect(called).toEqual(['first', 'aborted'])
  expect(await bus.events(id)).toContain('CANCEL_REQUESTED')
  await worker.stop()
})

test('P-16 a cancel while the end is being written: the first commit wins', async () => {
  const end = holdAt('before processes.write')
  const slow = await another(end.faults)
  const Quick = defineProcess('cancel-end', 'Quick', {
    state: z.object({}),
    execute: (ctx) => ctx.step('only', () => 'done'),
  })
  slow.hf.register(Quick)
  const { id } = await bus.hf.start(Quick, {}, { immediate: false })
  await slow.hf.run({ domains: ['cancel-end'], ...WORKER })
  await end.reached
  expect(await cancel(id)).toBe('done')
  end.release()
  await until(id, 'CANCELLED')
  // What was done is on record all the same, and the cancel is audited.
  expect(await records(id)).toEqual(['STEP only COMPLETED'])
  expect(await bus.events(id)).toContain('CANCEL_REQUESTED')

  const { id: other } = await bus.hf.start(Quick, {}, { immediate: false })
  await until(other, 'COMPLETED')
  expect(await cancel(other)).toBe('COMPLETED')
  expect(await look(other)).toMatchObject({ status: 'COMPLETED', result: 'done' })
  expect(await bus.events(other)).not.toContain('CANCEL_REQUESTED')
  await slow.close()
})

test('P-11 a response and a deadline at once: the process fails, and its state shows the response', async () => {
  const Waiting = defineProcess('answer-deadline', 'Waiting', {
    state,
    responses: answers,
    deadlineAction: 'fail',
    execute: (ctx, { answers }) => ctx.wait('answer', () => answers.length > 0),
  })
  const { id } = await bus.hf.start(Waiting, {}, { deadline: '100ms' })
  await isWaiting(id)
  await passed(id, 'deadline_at')
  const write = holdAt('before processes.write')
  const slow = await another(write.faults)
  slow.hf.register(Waiting)
  await slow.hf.run({ domains: ['answer-deadline'], ...WORKER })
  await write.reached
  await bus.hf.process(Waiting, id).respond('answer', { n: 7 })
  write.release()
  expect(await until(id, 'FAILED')).toMatchObject({
    error_code: 'DEADLINE_EXCEEDED',
    responses: 1,
    state: { answers: [7] },
  })
  await slow.close()
})
