import { openTestBus } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { by, openTrouble } from './trouble.fixture.js'

// What one part of a bulk operation meets does not reach the others: locks, rows that cannot be read, results that cannot be checked.

const { bus, hf, failing } = await openTrouble()
afterAll(() => bus.close())

const counted = (results: readonly { readonly code?: string; readonly outcome: string }[]) => {
  const counts: Record<string, number> = {}
  for (const { code, outcome } of results) counts[code ?? outcome] = (counts[code ?? outcome] ?? 0) + 1
  return counts
}

/** A transaction of another session. */
async function otherTransaction() {
  const other = new pg.Client({ connectionString: bus.connectionString })
  await other.connect()
  await other.query('begin')
  onTestFinished(() => other.end())
  return other
}

test('K-23 U-06 a bulk operation over many locked rows returns within 5 s, and does the others', async () => {
  const { type, broken, Pay, startProcess, startWorkflow, troubles } = failing()
  await hf.sendMany(
    Pay,
    Array.from({ length: 150 }, (_, n) => ({ data: { n } })),
  )
  const processes = [await startProcess(), await startProcess(), await startProcess(), await startProcess()]
  const workflows = [await startWorkflow(), await startWorkflow(), await startWorkflow(), await startWorkflow()]
  await troubles(158)
  broken.clear()
  const other = await otherTransaction()
  await other.query(
    `select from holdfast.command_trouble where type = $1 and ('x' || right(command_id::text, 2))::bit(8)::int % 8 <> 0 for update`,
    [type],
  )
  const { rows } = await other.query('select command_id from holdfast.command_trouble where type = $1', [type])
  expect(rows).toHaveLength(150)
  await other.query('select from holdfast.process where id = any ($1) for update', [processes.slice(0, 3)])
  await other.query('select from holdfast.workflow where id = any ($1) for update', [workflows.slice(0, 3)])
  const locked = rows.filter(({ command_id }) => Number.parseInt(String(command_id).slice(-2), 16) % 8 !== 0).length
  const began = performance.now()
  const results = await hf.trouble.retry({ type }, by)
  expect(performance.now() - began).toBeLessThan(5_000)
  expect(counted(results)).toEqual({ HF_BUSY: locked + 6, done: 150 - locked + 2 })
  await other.query('rollback')
  const busy = results.filter(({ outcome }) => outcome === 'refused')
  expect(counted(await hf.trouble.retry(busy, by))).toEqual({ done: locked + 6 })
})

test('K-23 U-06 rows that are locked one by one use up one budget, and all are refused as busy', async () => {
  const kinds = Array.from({ length: 6 }, () => failing())
  const ids: string[] = []
  for (const { startProcess, troubles } of kinds) {
    ids.push(await startProcess())
    await troubles(1)
  }
  const other = await otherTransaction()
  await other.query('select from holdfast.process where id = any ($1) for update', [ids])
  const began = performance.now()
  const results = await hf.trouble.retry(ids, by)
  expect(performance.now() - began).toBeLessThan(5_000)
  expect(counted(results)).toEqual({ HF_BUSY: 6 })
})

test('K-26 U-06 a process that cannot be decoded is refused alone', async () => {
  const { type, startProcess, troubles } = failing()
  const ids = [await startProcess(), await startProcess(), await startProcess()]
  await troubles(3)
  await bus.sql(
    `insert into holdfast.process_response (process_id, number, name, response_id, at, data)
     values ($1, 1, 'go', 'r', holdfast.now(), '{}')`,
    [ids[1]],
  )
  await bus.sql(
    `update holdfast.process_detail
     set projection_notes = '{"n": "nosuchtype"}', state_notes = '{"n": "nosuchtype"}' where id = $1`,
    [ids[1]],
  )
  const results = await hf.trouble.complete({ type }, by, { result: 'by hand' })
  expect(new Map(results.map(({ id, code }) => [id, code]))).toEqual(
    new Map([
      [ids[0], undefined],
      [ids[1], 'HF_NOT_DECODABLE'],
      [ids[2], undefined],
    ]),
  )
  expect(await hf.trouble.count({ type })).toBe(1)
})

test('U-06 a program that does not handle a command cannot complete it unchecked', async () => {
  const { type, Pay, send, troubles } = failing()
  const id = await send()
  await troubles(1)
  const console = await openTestBus({ connectionString: bus.connectionString })
  onTestFinished(() => console.close())
  const [refused] = await console.hf.trouble.complete({ type }, by, { result: 7 })
  expect(refused).toMatchObject({ id, code: 'HF_INVALID_OPTION', message: expect.stringContaining('does not handle') })
  expect(await hf.trouble.complete({ type }, by, { result: 7 })).toMatchObject([{ id, code: 'HF_INVALID_DATA' }])
  await console.hf.command(Pay, id).complete(by, 'by hand')
  expect(await hf.command(Pay, id).result()).toBe('by hand')
})
