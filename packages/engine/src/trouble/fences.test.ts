import { numbered, openTestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import type { TroubleGroup } from '../index.js'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow } from '../workflows/index.js'
import { by, openTrouble } from './trouble.fixture.js'

// What an operator says is about one failure: the one that was listed, counted or selected. It never is about a later one.

const bus = await openTestBus()
afterAll(() => bus.close())
await bus.hf.run({ poll: '20ms' })
const { hf } = bus
const named = numbered('fence')
const bob = { actor: 'bob', reason: 'not on the statement of 10:00' }

/** One of each model whose call is lost each time it is made. */
async function lostCalls() {
  const type = named()
  const calls: string[] = []
  const pay = (model: string) => {
    calls.push(model)
    throw new Error('read ECONNRESET')
  }
  const Pay = defineCommand(type, type, { data: z.string(), result: z.string(), atMostOnce: true })
  hf.handle(Pay, () => pay('commands'))
  const Payment = defineProcess(type, type, {
    state: z.string(),
    execute: (ctx) => ctx.step('pay', () => pay('processes'), { atMostOnce: true }),
  })
  hf.register(Payment)
  hf.handle(`${type}.pay`, () => pay('workflows'))
  const Order = defineWorkflow('test', type, { dlq: true }).step('pay', `${type}.pay`, { nonIdempotent: true }).build()
  await hf.send(Pay, 'x')
  await hf.start(Payment, 'x')
  await hf.start(Order, 'x')
  const lost = (count: number) =>
    waitFor(`${count} calls are lost`, async () => calls.length === count && (await hf.trouble.count({ type })) === 3)
  await lost(3)
  const list = async () => (await hf.trouble.list({ type })).items
  return { type, calls, lost, list }
}

test('K-20 U-06 what is said about a failure is refused after the work has failed again, in every model', async () => {
  const { type, calls, lost, list } = await lostCalls()
  const records = await list()
  const groups = await hf.trouble.groups({ type })
  const first = await hf.trouble.retry(records, by, { notDone: true })
  expect(first.map(({ outcome }) => outcome)).toEqual(['done', 'done', 'done'])
  await lost(6)
  for (const stale of [records, JSON.parse(JSON.stringify(records)), first]) {
    const retried = await hf.trouble.retry(stale, bob, { notDone: true })
    expect(retried.map(({ code }) => code)).toEqual(Array(3).fill('HF_NOT_IN_TROUBLE'))
    const completed = await hf.trouble.complete(stale, bob, { result: 'paid' })
    expect(completed.map(({ code }) => code)).toEqual(Array(3).fill('HF_NOT_IN_TROUBLE'))
    const cancelled = await hf.trouble.cancel(stale, bob)
    expect(cancelled.map(({ code }) => code)).toEqual(Array(3).fill('HF_NOT_IN_TROUBLE'))
    const assigned = await hf.trouble.assign(stale, bob, { to: 'bob' })
    expect(assigned.map(({ code }) => code)).toEqual(Array(3).fill('HF_NOT_IN_TROUBLE'))
  }
  for (const group of groups) expect(await hf.trouble.retry(group, bob, { notDone: true })).toEqual([])
  expect((await list()).map(({ assignedTo }) => assignedTo)).toEqual([null, null, null])
  expect(calls).toHaveLength(6)
  const again = await hf.trouble.retry(await list(), bob, { notDone: true })
  expect(again.map(({ outcome }) => outcome)).toEqual(['done', 'done', 'done'])
  await lost(9)
})

test('K-20 U-06 work that fails again between the selection of a bulk call and its statement is left alone', async () => {
  const { type, calls, list } = await lostCalls()
  const records = await list()
  // The same moment to the millisecond, which is all that a Date has.
  for (const [table, column] of [
    ['command_trouble', 'since'],
    ['process_trouble', 'since'],
    ['workflow_dead_letter', 'created_at'],
  ]) {
    await bus.sql(
      `update holdfast.${table} set ${column} = date_trunc('milliseconds', ${column})
        + (extract(microseconds from ${column})::int % 1000 + 1) % 1000 * interval '1 microsecond'
       where fingerprint = any ($1)`,
      [records.map(({ fingerprint }) => fingerprint)],
    )
  }
  expect((await list()).map(({ since }) => since)).toEqual(records.map(({ since }) => since))
  const results = await hf.trouble.retry(records, by, { notDone: true })
  expect(results.map(({ code }) => code)).toEqual(Array(3).fill('HF_NOT_IN_TROUBLE'))
  expect(calls).toHaveLength(3)
  expect(await hf.trouble.count({ type })).toBe(3)
})

test('U-06 K-13 a group acts on what it counted: its filter, a limit and further conditions hold', async () => {
  const { hf: operator, failing, bus: other } = await openTrouble()
  try {
    const { type, send, troubles } = failing()
    const ids = [await send(), await send(), await send(), await send()]
    await troubles(4)
    const mine = [ids[0] ?? '', ids[1] ?? '']
    await operator.trouble.assign(mine, by, { to: 'ann' })
    const [group] = await operator.trouble.groups({ type, assignedTo: 'ann', limit: 5 })
    expect(group).toMatchObject({ count: 2, filter: { type, assignedTo: 'ann' } })
    const counted = group as TroubleGroup
    await expect(operator.trouble.cancel({ ...counted, asignedTo: 'bob' } as never, by)).rejects.toThrow(
      expect.objectContaining({ code: 'HF_UNKNOWN_OPTION' }),
    )
    const { filter: _filter, ...without } = counted
    await expect(operator.trouble.cancel(without as never, by)).rejects.toThrow(
      expect.objectContaining({ code: 'HF_INVALID_OPTION' }),
    )
    expect(await operator.trouble.cancel({ ...counted, assignedTo: 'bob' }, by)).toEqual([])
    // Fails alike and is given to the same person, but later.
    const later = await send()
    await troubles(5)
    await operator.trouble.assign([later], by, { to: 'ann' })
    const one = await operator.trouble.cancel({ ...counted, limit: 1 }, by)
    expect(one.map(({ outcome }) => outcome)).toEqual(['done'])
    const rest = await operator.trouble.cancel(JSON.parse(JSON.stringify(counted)), by)
    expect([...one, ...rest].map(({ id }) => id).toSorted()).toEqual(mine.toSorted())
    expect(await operator.trouble.count({ type })).toBe(3)
  } finally {
    await other.close()
  }
})

test('U-06 a record that names another type than the work has is refused', async () => {
  const { type, calls, list } = await lostCalls()
  const other = await lostCalls()
  const records = (await list()).map((record) => ({ ...record, type: other.type }))
  const results = await hf.trouble.retry(records, by, { notDone: true })
  expect(results.map(({ code }) => code)).toEqual(Array(3).fill('HF_NOT_IN_TROUBLE'))
  expect(await hf.trouble.count({ type })).toBe(3)
  expect(calls).toHaveLength(3)
})
