import { readFile } from 'node:fs/promises'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineCommand, defineDispatch, defineProcess, defineWorkflow, processTarget } from './index.js'
import { storePayloadLimit } from './kernel/database/payload-limit.js'
import { INTERNAL, PUBLIC_FUNCTIONS } from './kernel/migrations/public-functions.js'

const LIMIT = 20_000
let bus: TestBus
let processId: string
const Pay = defineProcess('payments', 'Payment', {
  state: z.object({ note: z.string() }).loose(),
  responses: { approved: { data: z.object({}).loose(), apply: () => undefined } },
  async execute(ctx) {
    await ctx.event('approved', 'approved', { timeout: '10d' })
  },
})
const Settlement = defineDispatch('payments', 'Settlement', { target: processTarget(Pay) })
const Order = defineWorkflow('shop', 'order')
  .step('reserve', 'reserve')
  .waitHumanConfirm('approve')
  .step('ship', 'ship')
  .build()

beforeAll(async () => {
  bus = await openTestBus()
  await storePayloadLimit(bus.db, LIMIT)
  bus.hf.handle(defineCommand('payments', 'BookRisk'), async () => undefined)
  bus.hf.register(Pay)
  bus.hf.register(Settlement)
  bus.hf.register(Order)
  for (const name of ['reserve', 'ship']) bus.hf.handle(name, (input) => input)
  await bus.hf.run({ poll: '20ms' })
  processId = (await bus.hf.start(Pay, { note: '' }, { immediate: false, key: 'PAY-1' })).id
})
afterAll(() => bus.close())

const json = (bytes: number) => JSON.stringify({ note: 'x'.repeat(bytes - '{"note": ""}'.length) })

test.each([
  ['send', `holdfast.send('payments', 'BookRisk', $1)`, 'the data of the command'],
  ['start of a process', `holdfast.start('payments', 'Payment', $1)`, 'the state of the process'],
  ['start of a workflow', `holdfast.start('shop', 'order', $1)`, 'the input of the workflow'],
  [
    'the attributes of start',
    `holdfast.start('payments', 'Payment', '{"note": ""}', jsonb_build_object('attributes', $1::jsonb))`,
    'the attributes',
  ],
  ['respond', `holdfast.respond('payments', 'Payment', $2, 'approved', $1)`, 'the data of the response'],
  [
    'schedule',
    `holdfast.schedule('payments', 'Settlement', 'I-' || length($1::jsonb::text), $1::jsonb, now() + interval '1 d')`,
    'the context of the item',
  ],
])(
  'K-10 K-27 %s refuses what is over the size limit of the installation, and takes what is not',
  async (_, call, what) => {
    const run = (bytes: number) =>
      bus.sql(`with given as (select $2::text as process) select ${call} from given`, [json(bytes), processId])
    await expect(run(LIMIT + 1)).rejects.toMatchObject({
      code: '54000',
      message: expect.stringMatching(
        new RegExp(`HF_TOO_LARGE: ${what}.* takes ${LIMIT + 1} bytes; the limit is ${LIMIT}`),
      ),
    })
    await run(LIMIT)
  },
)

test.each([
  [
    'a response id',
    `holdfast.respond('payments', 'Payment', $1, 'approved', '{}', jsonb_build_object('responseId', repeat('x', 201)))`,
    '1 to 200',
  ],
  ['the name of a response', `holdfast.respond('payments', 'Payment', $1, repeat('x', 201), '{}')`, 'at most 200'],
  [
    'the key of an item',
    `holdfast.schedule('payments', 'Settlement', repeat('x', 201) || left($1, 0), '{}', now())`,
    '1 to 200',
  ],
])('K-24 %s that is too long is refused through SQL as it is through the library', async (_, call, said) => {
  await expect(bus.sql(`select ${call}`, [processId])).rejects.toMatchObject({
    code: '22023',
    message: expect.stringContaining(said),
  })
})

const someId = `'00000000-0000-7000-8000-000000000000'`
test.each([
  ['send', `holdfast.send('payments', 'Nothing', '{}')`, 'there is no command payments/Nothing'],
  ['start', `holdfast.start('payments', 'Nothing', '{}')`, 'there is no process or workflow payments/Nothing'],
  ['respond', `holdfast.respond('payments', 'Nothing', 'P', 'go', '{}')`, 'there is no process payments/Nothing'],
  [
    'decide',
    `holdfast.decide(${someId}, 'approve', 'confirm', '{"actor": "ann", "reason": "ok"}')`,
    'has no step approve',
  ],
  ['schedule', `holdfast.schedule('payments', 'Nothing', 'K', '{}', now())`, 'there is no dispatch payments/Nothing'],
])('U-02 %s refuses a name that is not known, and says what to check', async (_, call, said) => {
  await expect(bus.sql(`select ${call}`)).rejects.toMatchObject({
    code: '22023',
    message: expect.stringContaining(`HF_NOT_FOUND: `),
    hint: expect.stringMatching(/^Check /),
  })
  await expect(bus.sql(`select ${call}`)).rejects.toThrow(said)
})

test.each([
  ['send', `holdfast.send('payments', 'BookRisk', '{}', '{"Key": "K"}')`, 'id, key, correlationId'],
  ['start', `holdfast.start('payments', 'Payment', '{}', '{"Key": "K"}')`, 'id, key, startAt'],
  ['start of a workflow', `holdfast.start('shop', 'order', '{}', '{"Key": "K"}')`, 'id, key, startAt'],
  ['respond', `holdfast.respond('payments', 'Payment', 'P', 'go', '{}', '{"Key": "K"}')`, 'responseId'],
  ['decide', `holdfast.decide(${someId}, 'a', 'confirm', '{"Key": "K"}')`, 'actor, reason'],
  ['schedule', `holdfast.schedule('payments', 'Settlement', 'K', '{}', now(), '{"Key": "K"}')`, 'replace'],
])('U-02 %s refuses an option that is not known, and names those that are', async (_, call, known) => {
  await expect(bus.sql(`select ${call}`)).rejects.toMatchObject({
    code: '22023',
    message: expect.stringMatching(/HF_INVALID_OPTION: \w+: there is no option `Key`/),
    hint: expect.stringContaining(`Known options: ${known}`),
  })
})

const started = async (options: object) => {
  const call = `select holdfast.start('shop', 'order', '{"total": 120}', $1) as id`
  return (await bus.sql<{ id: string }>(call, [options]))[0]?.id ?? ''
}
const decide = (id: string, decision: string) =>
  bus.sql('select holdfast.decide($1, $2, $3, $4)', [id, 'approve', decision, { actor: 'ann', reason: 'seen' }])
const status = async (id: string) =>
  (await bus.sql<{ status: string }>('select status from holdfast.workflow where id = $1', [id]))[0]?.status
const waits = (id: string) =>
  waitFor('a person is asked', async () => {
    const [step] = await bus.sql(
      `select from holdfast.workflow_step where workflow_id = $1 and status = 'WAITING_DECISION'`,
      [id],
    )
    return step !== undefined
  })

test('U-02 W-10 a workflow that SQL has started and decided about goes to its end, once for each key', async () => {
  const id = await started({ key: 'O-1' })
  expect(await started({ key: 'O-1' })).toBe(id)
  await expect(decide(id, 'perhaps')).rejects.toThrow('`decision` must be confirm or reject, not perhaps')
  await waits(id)
  await decide(id, 'confirm')
  await waitFor('it has completed', async () => (await status(id)) === 'COMPLETED')
  expect(
    await bus.sql('select decision, actor, reason from holdfast.workflow_decision where workflow_id = $1', [id]),
  ).toEqual([{ decision: 'confirm', actor: 'ann', reason: 'seen' }])
  await expect(decide(id, 'confirm')).rejects.toThrow('HF_WRONG_STATUS')
  expect(await bus.sql('select from holdfast.workflow_step where workflow_id = $1 and number < 0', [id])).toEqual([])
})

test('W-10 K-15 a decision is part of the transaction of its caller, and rejecting aborts the workflow', async () => {
  const id = await started({})
  await waits(id)
  const by = `'{"actor": "ann", "reason": "seen"}'`
  await bus.sql(`begin; select holdfast.decide('${id}', 'approve', 'confirm', ${by}); rollback`)
  expect(await bus.sql('select from holdfast.workflow_step where workflow_id = $1 and number < 0', [id])).toEqual([])
  await decide(id, 'reject')
  await waitFor('it is aborted', async () => (await status(id)) === 'ABORTED')
})

test('W-10 a decision that is no longer possible when a worker applies it is audited and removed', async () => {
  const id = await started({})
  await waits(id)
  // Both are queued before a worker applies either.
  await bus.sql(
    `with decided as (select holdfast.decide($1, 'approve', 'confirm', '{"actor": "ann", "reason": "seen"}'))
     insert into holdfast.workflow_step (
       workflow_id, number, definition_id, name, status, handler, due_at, ready, scheduled_at, priority, aging, rank, reached_at, input)
     select $1, -30000, definition_id, '_root_', 'PENDING', '_root_', now(), true, now(), 50, 0, now(), now(),
       '{"step": "approve", "decision": "reject", "actor": "bob", "reason": "late"}'
     from decided, holdfast.workflow where id = $1`,
    [id],
  )
  const refused = await waitFor('one is refused', async () =>
    (await bus.hf.auditTrail({ id })).find(({ event }) => event === 'DECISION_REFUSED'),
  )
  expect(refused).toMatchObject({ detail: { step: 'approve', message: expect.stringMatching(/./) } })
  await waitFor(
    'none is left',
    async () =>
      (await bus.sql('select from holdfast.workflow_step where workflow_id = $1 and number < 0', [id])).length === 0,
  )
})

test('U-02 U-12 functions say whether they are public, and the page about SQL describes those that are', async () => {
  const rows = await bus.sql<{ name: string; comment: string }>(
    `select proname::text as name, obj_description(oid, 'pg_proc') as comment
     from pg_proc where pronamespace = 'holdfast'::regnamespace`,
  )
  const open = new Set(rows.filter(({ comment }) => comment !== INTERNAL).map(({ name }) => name))
  expect([...open].toSorted()).toEqual(Object.keys(PUBLIC_FUNCTIONS).toSorted())
  expect(rows.filter(({ name, comment }) => open.has(name) && comment !== PUBLIC_FUNCTIONS[name])).toEqual([])
  // Those that are made for a queue, too.
  expect(rows.map(({ name }) => name)).toContain('take_payments__commands')
  const headings = [...(await page()).matchAll(/^## `holdfast\.(\w+)`/gm)].map(([, name]) => name)
  expect(headings.toSorted()).toEqual(Object.keys(PUBLIC_FUNCTIONS).toSorted())
})

const page = () => readFile(new URL('../../../docs/reference/sql.md', import.meta.url), 'utf8')

test('U-02 the examples of the page about SQL run', async () => {
  const examples = [...(await page()).matchAll(/^```sql\n(.*?)^```/gms)].map(([, text = '']) => text)
  expect(examples.length).toBeGreaterThanOrEqual(Object.keys(PUBLIC_FUNCTIONS).length)
  const id = await started({ key: 'O-7' })
  await waits(id)
  // Roles belong to the whole server.
  const role = `sql_page_${processId.slice(-12)}`
  await bus.sql(`create role ${role}`)
  onTestFinished(async () => {
    await bus.sql(`drop owned by ${role}`)
    await bus.sql(`drop role ${role}`)
  })
  for (const example of examples) {
    const text = example.replace('6f1c9a2e-5b7d-7c3f-8a90-b1c2d3e4f506', id).replace('payments_app', role)
    await expect(bus.sql(text), text).resolves.toBeInstanceOf(Array)
  }
})
