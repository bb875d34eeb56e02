import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { holdfast } from 'holdfast'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { definitionsOf } from './definitions.js'

/**
 * A database as the release before left it, with work of every model in flight and its worker killed (release-1/make.mjs made it), is
 * opened by this release. Everything goes on where it stood: nothing is lost, and nothing that was on record is done again.
 */
const { connectionString } = await testDatabase({ empty: true })
const sql = new pg.Pool({ connectionString, max: 2 })
const all = definitionsOf(connectionString)
const ann = { actor: 'ann', reason: 'the new release is here' }

beforeAll(async () => {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query(gunzipSync(readFileSync(new URL('release-1/database.sql.gz', import.meta.url))).toString())
  await client.end()
}, 60_000)

afterAll(async () => {
  await all.pool.end()
  await sql.end()
})

const count = async (text: string): Promise<number> => {
  const { rows } = await sql.query<{ count: number }>(`select count(*)::int as count from ${text}`)
  return rows[0]?.count ?? 0
}

test('K-09 an installation of the release before is migrated, and everything that was in flight ends as if nothing had happened', async () => {
  const before = await effects()
  const hf = await holdfast({ connectionString, logger: false })
  all.registerAll(hf)
  const worker = await hf.run({ concurrency: 50, lease: '5s', poll: '50ms' })

  await hf.process(all.Payment, 'p-troubled 1').retry(ann)
  for (const key of ['p-wait 1', 'p-wait 2']) await hf.process(all.Payment, key).respond('approved', { by: 'ann' })
  await hf.process(all.Child, 'p-parent 1 child').respond('approved', { by: 'ann' })
  await hf.resume({ definition: all.Paused.name }, ann)
  for (const { outcome } of await hf.trouble.retry({ model: ['commands', 'workflows'] }, ann))
    expect(outcome).toBe('done')
  await waitFor('four decisions wait', async () => (await hf.workflows.decisions.waiting()).length === 4)
  for (const { instanceId, step } of await hf.workflows.decisions.waiting()) {
    await hf.workflow(instanceId).decide(step, 'confirm', ann)
  }
  await hf.item(all.Remote, 'r-dead 1').retry(ann)
  await waitFor('both settlements wait', async () => {
    return (await count(`holdfast.process where type = 'upgrade/Settle' and status = 'WAITING_FOR_ASYNC'`)) === 2
  })
  for (const { id } of (await hf.processes.list({ domain: 'upgrade', type: 'Settle' })).items) {
    await hf.process(all.Settle, id).respond('approved', { by: 'ann' })
  }

  await waitFor('four executions run elsewhere', async () => (await count('public.remote')) === 4)
  const { rows: remote } = await sql.query<{ id: string }>('select id from public.remote')
  for (const { id } of remote) await hf.dispatch.reportEnd(all.Remote, { executionId: id, status: 'COMPLETED' })

  const open = `(
    select 'command' as what, status from holdfast.command where status not in ('COMPLETED')
    union all select type, status from holdfast.process where status not in ('COMPLETED', 'COMPENSATED')
    union all select 'workflow', status from holdfast.workflow where status not in ('COMPLETED', 'FAILED')
    union all select item_type, status from holdfast.dispatch_item where status not in ('COMPLETED')
  ) as open`
  await waitFor('everything has ended', async () => (await count(open)) === 0, { timeout: 60_000 }).catch(
    async (error) => {
      const { rows } = await sql.query(`select * from ${open}`)
      throw new Error(`still open: ${JSON.stringify(rows)}`, { cause: error })
    },
  )
  await worker.stop()
  await hf.close()

  // What was on record before is there once; what came since is what was missing.
  const after = await effects()
  for (const effect of before.keys()) expect(after.get(effect), effect).toBe(1)
  expect([...after].filter(([, times]) => times !== 1)).toEqual([])
  const added = [...after.keys()].filter((effect) => !before.has(effect)).sort()
  expect(added).toEqual(expected)
}, 120_000)

async function effects(): Promise<Map<string, number>> {
  const { rows } = await sql.query<{ effect: string; times: number }>(`
    select work || ': ' || call as effect, count(*)::int as times from public.effect group by 1
    union all
    select work || ': executed elsewhere', count(*)::int from public.remote group by 1`)
  return new Map(rows.map(({ effect, times }) => [effect, times]))
}

/** What the release before had not done yet. */
const expected = [
  'c-killed 1: pay',
  'c-killed 2: pay',
  'c-killed in a batch: pay',
  'c-new 1: pay',
  'c-new 2: pay',
  'c-retry 1: pay',
  'c-troubled 1: pay',
  'c-troubled 2: pay',
  'd-new 1: transfer',
  'dw 1: payOut',
  'm-killed 1 charge: pay',
  'm-new 1 charge: pay',
  'p-command 1: pay',
  'p-command 1: settle',
  'p-inbox 1: settle',
  'p-killed 1: settle',
  'p-killed 1: slow',
  'p-killed 2: settle',
  'p-killed 2: slow',
  'p-new 1: book',
  'p-new 1: settle',
  'p-parent 1: settle',
  'p-paused 1: run',
  'p-retry 1: flaky',
  'p-retry 1: settle',
  'p-troubled 1: settle',
  'p-troubled 1: submit',
  'p-undo 1: unbook',
  'p-unknown 1: settle',
  'p-wait 1: settle',
  'p-wait 2: settle',
  'r-dead 1: executed elsewhere',
  'r-new 1: executed elsewhere',
  'reserve m-new 1: pay',
  'w-dlq 1: thank',
  'w-dlq 1: transfer',
  'w-dlq 2: thank',
  'w-dlq 2: transfer',
  'w-human 1: payOut',
  'w-human 2: payOut',
  'w-killed 1: pack',
  'w-killed 1: ship',
  'w-new 1: check',
  'w-new 1: payOut',
  'w-retry 1: bill',
  'w-retry 1: ship',
  'w-rollback 1: release',
]
