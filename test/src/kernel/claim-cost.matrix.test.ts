import { longOr } from '@holdfast/testing/internal'
import type { Database } from 'holdfast/internal'
import pg from 'pg'
import { expect, test } from 'vitest'
import { tinyDatabase } from './tiny-database.js'

const CLAIM = `select * from holdfast.tiny_claim(array['a'], array[$1::float8], 'w', $2, 60000, false, 1000)`

/** One claim, answering from where the next may look. */
async function claim(client: pg.Client, limit: number, from: number | null): Promise<number | null> {
  const { rows } = await client.query(CLAIM, [from, limit])
  expect(rows[0].items).toHaveLength(limit)
  return rows[0].marks[0].mark
}

/** How many pages of tables and indexes a claim looks at: pages, because time says nothing on a busy machine. */
async function pagesOfClaim(client: pg.Client, from: number | null): Promise<number> {
  const pages: number[] = []
  for (let n = 0; n < 9; n++) {
    const { rows } = await client.query(`explain (analyze, buffers, format json) ${CLAIM}`, [from, 100])
    const [{ Plan: plan }] = rows[0]['QUERY PLAN']
    pages.push(plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
  }
  return pages.sort((a, b) => a - b)[4] ?? 0
}

const fill = (db: Database, type: string, count: number, dueIn: string) =>
  db.run(
    {
      name: 'test.fill',
      // Ids in order, so that filling the table is not what the test measures.
      text: `
        insert into holdfast.tiny (id, type, due_at)
        select (lpad(to_hex(n + coalesce((select count(*) from holdfast.tiny), 0)), 32, '0'))::uuid, $1, holdfast.now() + $3::interval + n * interval '1 us'
        from generate_series(1, $2::int) as n`,
    },
    [type, count, dueIn],
  )

const MANY = longOr(5_000_000, 100_000)

test(`K-17 claims stay flat from 10,000 to ${MANY} rows, by plan and by pages read`, async () => {
  const { db, connectionString } = await tinyDatabase({ statementTimeout: 300_000 })
  const client = new pg.Client({ connectionString })
  await client.connect()
  const pages = async () => {
    await db.run({ name: 'test.analyze', text: 'analyze holdfast.tiny' })
    return pagesOfClaim(client, null)
  }
  await fill(db, 'a', 5_000, '-1 h')
  await fill(db, 'a', 2_500, '1 d')
  await fill(db, 'b', 2_500, '-2 h')
  const small = await pages()
  // Parked for tomorrow, and due before all of ours but of another type: neither may be walked through.
  await fill(db, 'a', MANY / 2, '1 d')
  await fill(db, 'b', MANY / 2 - 10_000, '-2 h')
  const large = await pages()
  const [rows] = await db.run({ name: 'test.count', text: 'select count(*)::int as n from holdfast.tiny' })
  expect(rows).toEqual({ n: MANY })
  // A level or two more in each index is what so many rows may cost.
  expect(large).toBeLessThan(small * 2)

  const { rows: plan } = await client.query(`
    explain select id from holdfast.tiny
    where type = 'a' and due_at >= '-infinity' and due_at <= holdfast.now()
    order by due_at limit 100 for no key update skip locked`)
  expect(plan.map((line) => line['QUERY PLAN']).join('\n')).toMatch(/Index Scan using tiny_due/)
  await client.end()
}, 300_000)

const CLAIMED = longOr(300_000, 80_000)

test(`K-17 a snapshot held open while ${CLAIMED} rows are claimed does not make claims grow`, async () => {
  const { db, connectionString } = await tinyDatabase({ statementTimeout: 300_000 })
  const client = new pg.Client({ connectionString })
  const pin = new pg.Client({ connectionString })
  await client.connect()
  await pin.connect()
  await fill(db, 'a', CLAIMED + 5_000, '-1 h')
  await pin.query('begin isolation level repeatable read')
  await pin.query('select count(*) from holdfast.tiny')
  let from = await claim(client, 1_000, null)
  const early = await pagesOfClaim(client, from)
  for (let claimed = 0; claimed < CLAIMED; claimed += 1_000) from = await claim(client, 1_000, from)
  const late = await pagesOfClaim(client, from)
  expect(late).toBeLessThan(early * 2)
  // The same claim without its watermark walks through everything that was claimed before: the pin is really there.
  expect(await pagesOfClaim(client, null)).toBeGreaterThan(early * 2)
  await pin.query('rollback')
  await pin.end()
  await client.end()
}, 300_000)
