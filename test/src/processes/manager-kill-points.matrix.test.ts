import { randomUUID } from 'node:crypto'
import {
  isLongRun,
  openTestBus,
  recordPoints,
  sampled,
  startWorkerProcess,
  type TestBus,
  waitFor,
} from '@holdfast/testing/internal'
import { assemble, openDatabase } from 'holdfast/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Booking, Order, registerAll } from './manager-definitions.js'

const script = new URL('../../dist/processes/manager-worker-process.js', import.meta.url)
const WORKER = { concurrency: 5, lease: '3s', poll: '20ms' } as const
const QUEUE = 'managed_kills__process_replies'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  await bus.sql('create table effect (of text not null, command text not null)')
  registerAll(bus.hf)
})
afterAll(() => bus.close())

const KINDS = ['order', 'refused', 'booking'] as const
type Round = Record<(typeof KINDS)[number], string>

/** One of each kind; the confirmation that orders wait for comes twice, and before they wait for it. */
async function startRound(hf: TestBus['hf']): Promise<Round> {
  const order = await hf.start(Order, { of: 'order' })
  const refused = await hf.start(Order, { of: 'refused', refuse: true })
  const booking = await hf.start(Booking, { of: 'booking' }, { immediate: false })
  const confirmations = [order, refused].map(({ id }) => ({
    correlation_id: id,
    reply_id: 'confirmed',
    outcome: 'SUCCESS',
    final: true,
  }))
  await hf.queues.sendBatch(QUEUE, [...confirmations, ...confirmations])
  return { order: order.id, refused: refused.id, booking: booking.id }
}

async function ended({ order, refused, booking }: Round): Promise<boolean> {
  const statuses = await Promise.all([order, refused, booking].map(async (id) => (await bus.process(id)).status))
  return statuses.join(' ') === 'COMPLETED COMPENSATED COMPLETED'
}

const EXPECTED = {
  order: { commands: ['Charge', 'Reserve'], effects: ['Charge', 'Reserve'] },
  refused: { commands: ['Charge', 'Release', 'Reserve'], effects: ['Release', 'Reserve'] },
  booking: { commands: ['Charge', 'Reserve'], effects: ['Charge', 'Reserve'] },
} as const

/** Every command was sent once and had its effect once; every reply was applied once. */
async function checkBooks(round: Round, point: string): Promise<void> {
  for (const kind of KINDS) {
    const commands = (await bus.hf.commands.list({ correlationId: round[kind] })).items
    expect(commands.map(({ type }) => type).sort(), point).toEqual(EXPECTED[kind].commands)
    const effects = await bus.sql<{ command: string }>('select command from effect where of = $1 order by command', [
      kind,
    ])
    expect(
      effects.map(({ command }) => command),
      point,
    ).toEqual(EXPECTED[kind].effects)
  }
  const seen = ['reserve SUCCESS', 'wait SUCCESS']
  expect(await bus.process(round.order), point).toMatchObject({ state: { seen: [...seen, 'charge SUCCESS'] } })
  expect(await bus.process(round.refused), point).toMatchObject({ state: { seen: [...seen, 'charge FAILED'] } })
  expect(await bus.history(round.refused), point).toEqual([
    'COMMAND reserve STARTED',
    'COMMAND reserve COMPLETED',
    'WAIT wait STARTED',
    'EVENT wait COMPLETED',
    'COMMAND charge STARTED',
    'COMMAND charge FAILED',
    'UNWIND FAILURE STARTED',
    'COMPENSATION reserve STARTED',
    'COMPENSATION reserve COMPLETED',
  ])
  await waitFor(`no reply is left after a kill ${point}`, async () => (await bus.hf.queues.metrics(QUEUE)).length === 0)
  await bus.sql('truncate effect')
}

async function pointsOfARun(): Promise<readonly string[]> {
  const { faults, points } = recordPoints()
  const hf = assemble(await openDatabase({ connectionString: bus.connectionString, faults }), {})
  registerAll(hf)
  const round = await startRound(hf)
  const from = points.length
  await hf.run(WORKER)
  await waitFor('all have ended', () => ended(round))
  await hf.close()
  await checkBooks(round, 'no kill')
  return [...new Set(points.slice(from))].filter((point) =>
    / (processes\.(claim-replies|apply-managed|record-replies|completed-commands|write|claim)|commands\.flush-sends)$/.test(
      point,
    ),
  )
}

/** The leases of the victim end at once. */
async function endLeases(): Promise<void> {
  await bus.sql(`update holdfast.process set due_at = holdfast.now() where leased_by = 'victim'`)
  for (const queue of [QUEUE, 'managed_kills__commands']) {
    await bus.sql(`update pgmq.q_${queue} set vt = holdfast.now() where read_ct > 0`)
  }
}

test('M-03 M-05 P-05 a worker killed before or after any statement: no command is sent twice, the books balance', async () => {
  const points = await pointsOfARun()
  expect(points).toEqual(
    expect.arrayContaining(
      ['claim-replies', 'apply-managed', 'record-replies', 'completed-commands'].flatMap((name) => [
        `before processes.${name}`,
        `after processes.${name}`,
      ]),
    ),
  )
  for (const point of sampled(points, 3)) {
    for (const time of isLongRun ? [1, 2] : [1]) {
      const round = await startRound(bus.hf)
      const victim = startWorkerProcess(script, { connectionString: bus.connectionString, point, time })
      const done = waitFor(`all have ended before the kill ${point}`, () => ended(round)).catch(() => undefined)
      // A point that is passed once in a round is not passed a second time.
      const killed = await Promise.race([victim.ended, done])
      if (killed === true && time > 1) await victim.kill()
      else expect(killed, point).toEqual({ code: null, signal: 'SIGKILL' })
      await endLeases()
      const heir = await bus.hf.run(WORKER)
      await waitFor(`all have ended after a kill ${point} (${time})`, () => ended(round))
      await checkBooks(round, `${point} (${time})`)
      await heir.stop()
    }
  }
}, 300_000)

test.each(['before', 'after'])(
  'M-02 M-05 a starter killed %s its one statement: repeated, it is started once',
  async (when) => {
    const id = randomUUID()
    const point = `${when} processes.flush-managed-starts`
    const victim = startWorkerProcess(script, { connectionString: bus.connectionString, point, time: 1, start: id })
    expect(await victim.ended).toEqual({ code: null, signal: 'SIGKILL' })
    const again = await bus.hf.start(Order, { of: id }, { id })
    expect(again.created).toBe(when === 'before')
    expect(await again.get()).toMatchObject({ id, status: 'WAITING_FOR_REPLY' })
    expect((await bus.hf.commands.list({ correlationId: id })).items).toHaveLength(1)
    expect(await bus.history(id)).toEqual(['COMMAND reserve STARTED'])
  },
)
