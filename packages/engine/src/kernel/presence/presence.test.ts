import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLogger } from '../logger.js'
import { knownDefinitions } from '../results/presence.js'
import { createPresence, type WorkerDefinition } from './presence.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const beat = () => bus.sql('select holdfast.note_beat()')
async function counts(): Promise<boolean | undefined> {
  const [row] = await bus.sql<{ counts: boolean }>('select holdfast.absence_counts() as counts')
  return row?.counts
}

test.each([
  ['an outage', 3_600_000],
  ['a clock that was set back', -60_000],
])(
  'K-03 after %s a definition counts as absent only after heartbeats without a gap for two intervals',
  async (_, jump) => {
    await bus.steady()
    await beat()
    expect(await counts()).toBe(true)
    await bus.moveClock(jump)
    expect(await counts()).toBe(false)
    await beat()
    expect(await counts()).toBe(false)
    await bus.moveClock(60_000)
    await beat()
    expect(await counts()).toBe(false)
    await bus.moveClock(60_000)
    await beat()
    expect(await counts()).toBe(true)
  },
)

test('K-03 a worker records its definitions before its first heartbeat, when something is registered, and after a failure', async () => {
  const noted: number[] = []
  let failing = false
  const presence = createPresence(bus.db, {
    worker: 'noting',
    has() {
      noted.push(noted.length)
      if (failing) {
        failing = false
        throw new Error('the database is away')
      }
      return [{ model: 'commands', name: 'noting/Do' }]
    },
    everyMs: 60_000,
    logger: silentLogger,
  })
  await bus.moveClock(1_000)
  await presence.begin()
  expect(noted).toHaveLength(1)
  failing = true
  presence.changed()
  await waitFor('it has failed and is noted again', () => noted.length === 3)
  presence.stop()
})

test('U-05 the installation lists the definitions that workers have, and how many live workers have it', async () => {
  const begin = async (worker: string, has: readonly WorkerDefinition[]) => {
    const presence = createPresence(bus.db, { worker, has: () => has, everyMs: 60_000, logger: silentLogger })
    await presence.begin()
    presence.stop()
  }
  const known = async () =>
    (await knownDefinitions(bus.db, 'processes')).map(({ name, version, liveWorkers }) => [name, version, liveWorkers])
  await begin('first', [
    { model: 'processes', name: 'known/A', version: 1, leaseMs: 30_000 },
    { model: 'processes', name: 'known/A', version: 2, leaseMs: 30_000 },
    { model: 'workflows', name: 'known' },
  ])
  await bus.moveClock(200_000)
  await begin('second', [{ model: 'processes', name: 'known/A', version: 2, leaseMs: 30_000 }])
  await begin('third', [{ model: 'processes', name: 'known/A', version: 2, leaseMs: 30_000 }])
  expect(await known()).toEqual([
    ['known/A', 1, 0],
    ['known/A', 2, 2],
  ])
  // Rows of workers that are gone are removed; what was known once stays known.
  await bus.moveClock(3 * 86_400_000)
  await bus.sql('select holdfast.forget_workers()')
  expect(await known()).toEqual([
    ['known/A', 1, 0],
    ['known/A', 2, 0],
  ])
  const rows = await bus.sql(`select worker from holdfast.worker_definition where model = 'processes'`)
  expect(rows).toEqual([{ worker: 'first' }, { worker: 'third' }])
})

test('K-22 a worker that has stopped in order counts as gone at once, and one that is killed after two missed heartbeats', async () => {
  const live = async () =>
    (await knownDefinitions(bus.db, 'commands')).find(({ name }) => name === 'stopping/Do')?.liveWorkers
  const presence = createPresence(bus.db, {
    worker: 'stopping',
    has: () => [{ model: 'commands', name: 'stopping/Do' }],
    logger: silentLogger,
  })
  await presence.begin()
  expect(await live()).toBe(1)
  presence.stop()
  expect(await live()).toBe(1)
  await presence.end()
  expect(await live()).toBe(0)
  await presence.begin()
  expect(await live()).toBe(1)
  presence.stop()
})
