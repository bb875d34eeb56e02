import { openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand, defineDispatch, defineProcess, processTarget } from './index.js'
import { storePayloadLimit } from './kernel/database/payload-limit.js'

const LIMIT = 20_000
let bus: TestBus
let processId: string
const Pay = defineProcess('entry', 'Pay', {
  state: z.object({ note: z.string() }),
  responses: { confirmed: { data: z.object({ note: z.string() }), apply: () => undefined } },
  async execute(ctx) {
    await ctx.event('confirmed', 'confirmed', { timeout: '10d' })
  },
})
const Settlement = defineDispatch('entry_settlement', 'Items', { target: processTarget(Pay) })

beforeAll(async () => {
  bus = await openTestBus()
  await storePayloadLimit(bus.db, LIMIT)
  bus.hf.handle(defineCommand('entry', 'Book'), async () => undefined)
  bus.hf.register(Pay)
  bus.hf.register(Settlement)
  await bus.hf.run({ poll: '20ms' })
  processId = (await bus.hf.start(Pay, { note: '' }, { deferred: true })).id
})
afterAll(() => bus.close())

const json = (bytes: number) => JSON.stringify({ note: 'x'.repeat(bytes - '{"note": ""}'.length) })

test.each([
  ['send_command', `holdfast.send_command('entry', 'Book', $1)`, 'the data of the command'],
  ['start_process', `holdfast.start_process('entry', 'Pay', $1)`, 'the state of the process'],
  [
    'the attributes of start_process',
    `holdfast.start_process('entry', 'Pay', '{"note": ""}', attributes => $1)`,
    'the attributes',
  ],
  ['respond', `holdfast.respond('entry', 'Pay', $2, 'confirmed', $1)`, 'the data of the response'],
  [
    'schedule_item',
    `holdfast.schedule_item('entry_settlement', 'I-' || length($1::jsonb::text), now() + interval '1 d', $1::jsonb)`,
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
  ['a response id', `holdfast.respond('entry', 'Pay', $1, 'confirmed', '{}', repeat('x', 201))`, 'at most 200'],
  ['the name of a response', `holdfast.respond('entry', 'Pay', $1, repeat('x', 201), '{}')`, 'at most 200'],
  [
    'the id of an item',
    `holdfast.schedule_item('entry_settlement', repeat('x', 201) || left($1, 0), now(), '{}')`,
    '1 to 200',
  ],
])('K-24 %s that is too long is refused through SQL as it is through the library', async (_, call, said) => {
  await expect(bus.sql(`select ${call}`, [processId])).rejects.toMatchObject({
    code: '22023',
    message: expect.stringContaining(said),
  })
})
