import pg from 'pg'
import { expect, test } from 'vitest'
import { dropTestDatabase, testDatabase } from '../server/test-server.js'
import { createEffects, type EffectsOptions } from './effects.js'
import { effectsInDatabase, effectTable } from './event.js'
import type { EffectFault } from './faults.js'

const call = { execution: 'e1', name: 'charge', idempotencyKey: 'k1' }
const happened = async (effects: ReturnType<typeof createEffects>) => (await effects.events()).map(({ what }) => what)
const withFault = (fault: EffectFault, options: EffectsOptions = {}) =>
  createEffects({ ...options, faults: ({ time, undo }) => (time === 1 && !undo ? fault : undefined) })

test.each<[EffectFault, RegExp, string[]]>([
  ['refused', /says no/, ['called', 'refused']],
  ['unreachable', /refused/, ['called']],
  ['lostAnswer', /ECONNRESET/, ['called', 'made']],
])(
  'X-02 a call that meets %s fails, and only the service knows whether it had its effect',
  async (fault, error, expected) => {
    const effects = withFault(fault)
    await expect(effects.perform(call)).rejects.toThrow(error)
    expect(await happened(effects)).toEqual(expected)
    expect(await effects.perform(call)).toEqual({ reference: 'k1' })
  },
)

test.each<[EffectFault, string[]]>([
  ['hangs', ['called', 'made']],
  ['hangsBefore', ['called']],
  ['late', ['called', 'made']],
  ['slow', ['called', 'made']],
])('X-02 a call that meets %s ends when its caller gives up', async (fault, expected) => {
  const effects = withFault(fault)
  const patience = new AbortController()
  const calling = effects.perform({ ...call, signal: patience.signal })
  patience.abort(new Error('time is up'))
  await expect(calling).rejects.toThrow(/time is up|ECONNRESET|aborted/)
  expect(await happened(effects)).toEqual(expected)
})

test('X-02 the same seed brings the same faults, another seed other ones', async () => {
  const faults = { lostAnswer: 30, refused: 20 }
  const fates = async (seed: number) => {
    const effects = createEffects({ seed, faults })
    for (let n = 0; n < 40; n++) await effects.perform({ ...call, name: `charge ${n}` }).catch(() => undefined)
    return happened(effects)
  }
  expect(await fates(7)).toEqual(await fates(7))
  expect(await fates(7)).not.toEqual(await fates(8))
  expect(() => createEffects({ faults: { lostAnswer: 60, refused: 60 } })).toThrow(/120/)
})

test('K-20 an inquiry says whether the effect took place', async () => {
  const effects = withFault('lostAnswer')
  expect(await effects.inquire(call)).toBe('notDone')
  await effects.perform(call).catch(() => undefined)
  expect(await effects.inquire(call)).toEqual({ done: { reference: 'k1' } })
})

test('X-02 effects kept in the database are seen by every process that uses it', async () => {
  const database = await testDatabase({ empty: true })
  const pool = new pg.Pool({ connectionString: database.connectionString, max: 1 })
  const sql = async <Row extends object>(text: string, params?: unknown[]) => (await pool.query<Row>(text, params)).rows
  try {
    await sql(effectTable)
    await createEffects({ store: effectsInDatabase(sql) }).perform(call)
    const other = createEffects({ store: effectsInDatabase(sql) })
    await other.undo({ ...call, idempotencyKey: 'k1/undo' })
    expect(await happened(other)).toEqual(['called', 'made', 'answered', 'undone'])
    expect(await other.inquire(call)).toEqual({ done: { reference: 'k1' } })
  } finally {
    await pool.end()
    await dropTestDatabase(database)
  }
})
