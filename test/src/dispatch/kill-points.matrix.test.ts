import { isLongRun, recordPoints, sampled, startWorkerProcess, testDatabase, waitFor } from '@holdfast/testing/internal'
import { assemble, type Database, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { onProcesses, onRemote, remoteTable } from './definitions.js'

const script = new URL('../../dist/dispatch/worker-process.js', import.meta.url)
const WORKER = { lease: '400ms', poll: '20ms' } as const
const CONFIG = {
  dispatchInterval: 0,
  jitterWindow: 0,
  batchSize: 5,
  staleClaimThreshold: 300,
  maxDispatchRetries: 50,
  // Several looks are needed: a dispatcher killed after one leaves others to its heir.
  maxStaleRecoveryPerCycle: 7,
} as const
const ITEMS = 20
const PATIENCE = 60_000
const past = new Date('2020-01-01T00:00:00Z')

let connectionString: string
let db: Database
let pool: pg.Pool
beforeAll(async () => {
  ;({ connectionString } = await testDatabase())
  db = await openDatabase({ connectionString })
  pool = new pg.Pool({ connectionString, max: 8 })
  await pool.query(remoteTable)
})
afterAll(async () => {
  await pool.end()
  await db.close()
})

/** An installation with items due, and how to wait for their end. */
async function openRound(domain: string, remote: boolean, database: Database) {
  const hf = assemble(database, {})
  const { Pay, Settlement: own } = onProcesses(domain, CONFIG)
  const Settlement = remote ? onRemote(domain, CONFIG, pool) : own
  const items = Array.from({ length: ITEMS }, (_, n) => ({ key: `PAY-${n}`, context: { n }, startAt: past }))
  await hf.schedule(Settlement, items)
  hf.register(Settlement)
  if (!remote) hf.register(Pay)
  const isDone = async () => (await hf.dispatch.depth(Settlement)).COMPLETED === ITEMS
  return { hf, isDone, done: () => waitFor(`${domain} is done`, isDone, { timeout: PATIENCE }) }
}

async function pointsOfARun(remote: boolean): Promise<string[]> {
  const { faults, points } = recordPoints()
  const recording = await openDatabase({ connectionString, faults })
  const { hf, done } = await openRound(`straight-${remote ? 'remote' : 'own'}`, remote, recording)
  const from = points.length
  const worker = await hf.run(WORKER)
  await done()
  await worker.stop()
  await hf.close()
  const passed = points.slice(from).filter((point) => / dispatch\./.test(point))
  return [...new Set(passed)].filter((point) => !/note|count-items|extend|schedule/.test(point))
}

async function checkBooks(domain: string, remote: boolean, where: string): Promise<void> {
  const executions = remote
    ? await pool.query(
        `select execution_id as id from remote_execution where execution_id like 'exec:' || $1 || ':%'`,
        [`${domain}/Items`],
      )
    : await pool.query(
        'select key as id from holdfast.process_detail join holdfast.process using (id) where dispatch_type = $1',
        [`${domain}/Items`],
      )
  const ids = executions.rows.map((row: { id: string }) => row.id)
  const expected = Array.from({ length: ITEMS }, (_, n) => `exec:${domain}/Items:PAY-${n}:0`)
  expect(ids.sort(), where).toEqual(expected.sort())
  const contexts = await pool.query('select from holdfast.dispatch_context where item_type = $1', [`${domain}/Items`])
  expect(contexts.rowCount, where).toBe(0)
}

async function killAt(points: readonly string[], remote: boolean): Promise<ReadonlySet<string>> {
  const reached = new Set<string>()
  const times = remote ? [1] : [1, 2]
  const left = [
    ...sampled(
      points.flatMap((point) => times.map((time) => ({ point, time }))),
      3,
    ),
  ]
  const lanes = Array.from({ length: 3 }, async () => {
    for (let dies = left.pop(); dies; dies = left.pop()) {
      const where = `killed ${dies.point} (${dies.time})`
      const domain = `kill-${remote ? 'remote' : 'own'}-${points.indexOf(dies.point)}-${dies.time}`
      const { hf, isDone, done } = await openRound(
        domain,
        remote,
        await openDatabase({ connectionString, poolSize: 4 }),
      )
      const victim = startWorkerProcess(script, { connectionString, domain, remote, dies })
      const over = waitFor('it is over', isDone, { timeout: PATIENCE })
      over.catch(() => undefined)
      const killed = await Promise.race([victim.ended.then(() => true), over.then(() => false)])
      if (killed) reached.add(dies.point)
      else await victim.kill()
      const heir = await hf.run(WORKER)
      await done()
      await heir.stop()
      await checkBooks(domain, remote, where)
      await hf.close()
    }
  })
  await Promise.all(lanes)
  return reached
}

test('D-07 a dispatcher killed before or after any statement of its cycle: each item is started once, and all end', async () => {
  const points = await pointsOfARun(false)
  const statements = ['claim-cycles', 'read-config', 'release', 'finish-cycle'].map((name) => `dispatch.${name}`)
  const everywhere = statements.flatMap((name) => [`before ${name}`, `after ${name}`])
  expect(points).toEqual(expect.arrayContaining(everywhere))
  const reached = await killAt(points, false)
  if (isLongRun) expect([...reached]).toEqual(expect.arrayContaining(everywhere))
}, 300_000)

test('D-13 the same with a remote target, where the outcome of a start may be unknown', async () => {
  const points = await pointsOfARun(true)
  const statements = ['claim', 'record-starts', 'find-checks', 'apply-checks'].map((name) => `dispatch.${name}`)
  const everywhere = statements.flatMap((name) => [`before ${name}`, `after ${name}`])
  expect(points).toEqual(expect.arrayContaining(everywhere))
  const reached = await killAt(points, true)
  if (isLongRun) expect([...reached]).toEqual(expect.arrayContaining(everywhere))
}, 300_000)
