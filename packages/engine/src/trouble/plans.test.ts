import { openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { models } from '../kernel/model/handle.js'
import { readCursor } from '../kernel/model/page.js'
import { ConditionBuilder, checkFilter } from './filter.js'
import { listTrouble, placeOf } from './queries/find-trouble.js'

const PER_MODEL = 20_000
const TABLES = ['command_trouble', 'process_trouble', 'workflow_dead_letter', 'dispatch_dead_letter']

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  for (const text of fill) await bus.sql(text, [PER_MODEL])
  await bus.sql('analyze')
}, 120_000)
afterAll(() => bus.close())

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Node[]
}

/** What each part of the plan of a statement reads of the models' tables. */
async function plan(run: (executor: Parameters<typeof listTrouble>[0]) => Promise<unknown>) {
  const reads: { table: string; index: string | undefined; rows: number }[] = []
  const collect = (node: Node): void => {
    const table = node['Relation Name'] ?? ''
    const rows = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
    if (TABLES.includes(table)) reads.push({ table, index: node['Index Name'], rows })
    for (const child of node.Plans ?? []) collect(child)
  }
  await run({
    async run<Row extends object>(
      { text }: { readonly text: string },
      params: readonly unknown[] = [],
    ): Promise<Row[]> {
      const [row] = await bus.sql<{ 'QUERY PLAN': readonly { Plan: Node }[] }>(
        `explain (analyze, timing off, format json) ${text}`,
        [...params],
      )
      const top = row?.['QUERY PLAN'][0]?.Plan
      if (top) collect(top)
      return []
    },
  })
  return reads
}

const listed = (filter: object, limit = 20) =>
  plan((executor) => listTrouble(executor, checkFilter('list', filter, { cursor: true }).conditions, limit))
const tablesOf = (reads: readonly { readonly table: string }[]) => reads.map(({ table }) => table).toSorted()

const cursor = Buffer.from(JSON.stringify([0, `${Date.now() * 1_000 - 9_000_000_000} 5`])).toString('base64url')

test.each([
  ['nothing', {}, ''],
  ['a domain', { domain: 'd1' }, '_by_domain'],
  ['a type', { type: 't1' }, '_by_type'],
  ['a domain and a type', { domain: 'd1', type: 't1' }, '_by_type'],
  ['a code', { code: 'C1' }, '_by_code'],
  ['a fingerprint', { fingerprint: 'f1' }, '_by_fingerprint'],
  ['a time', { since: new Date(Date.now() - 7_200_000), until: new Date(Date.now() - 3_600_000) }, ''],
  ['a cursor', { cursor }, ''],
  ['a cursor of a domain', { domain: 'd1', cursor }, '_by_domain'],
])('U-06 a list by %s reads a page from an index of each model', async (_, filter, ending) => {
  const reads = await listed(filter)
  expect(tablesOf(reads)).toEqual(TABLES.toSorted())
  for (const { table, index, rows } of reads) {
    expect(index).toBe(`${table}_newest${ending}`)
    // The first that do not fit a second condition are left out on the way.
    expect(rows, `${table} by ${index}`).toBeLessThan(250)
  }
})

test('U-06 a list by step reads the models that have steps, and a list of one model only its table', async () => {
  const steps = await listed({ step: 's1' })
  expect(steps.map(({ index }) => `${index}`).toSorted()).toEqual([
    'process_trouble_newest_by_step',
    'workflow_dead_letter_newest_by_step',
  ])
  for (const [place, model] of models.entries()) {
    const reads = await listed({ model, code: 'C1' })
    expect(reads.map(({ index }) => index)).toEqual([`${TABLES[place]}_newest_by_code`])
  }
})

test('U-06 a list by person starts from what is assigned', async () => {
  await bus.sql(`
    insert into holdfast.trouble_assignment (model, place, since, assigned_to, assigned_at)
    select model, place, since, 'bob', now() from holdfast.trouble where domain = 'd1' order by since desc, place desc limit 12`)
  const reads = await listed({ assignedTo: 'bob' })
  for (const { rows } of reads) expect(rows).toBeLessThanOrEqual(12)
})

test('U-06 work is found by its id through the primary keys', async () => {
  const reads = await listed({ id: '0190163d-8694-739b-aea5-966c26f8ad91' })
  expect(tablesOf(reads)).toEqual(TABLES.toSorted())
  for (const { index, rows } of reads) {
    expect(index).toBeDefined()
    expect(rows).toBe(0)
  }
})

test('U-06 the last page of a long list costs what the first does', async () => {
  const deep = new ConditionBuilder(checkFilter('list', {}).conditions)
  const [row] = await bus.sql<{ failureId: string; place: string }>(`
    select (extract(epoch from since) * 1000000)::int8::text as "failureId", place
    from holdfast.trouble order by since, place offset 100 limit 1`)
  expect(row).toBeDefined()
  if (!row) return
  const place = placeOf(row)
  expect(readCursor('list', Buffer.from(JSON.stringify([0, place.id])).toString('base64url'))?.id).toBe(place.id)
  deep.addPlace(place)
  const rows = (reads: readonly { readonly rows: number }[]) => reads.reduce((sum, read) => sum + read.rows, 0)
  const last = rows(await plan((executor) => listTrouble(executor, deep, 20)))
  expect(last).toBeLessThanOrEqual(rows(await listed({})) + TABLES.length)
})

const common = `now() - n * interval '1 s' as since, 'C' || n % 20 as code, 'f' || n % 50 as fingerprint, 'd' || n % 5 as domain,
  't' || n % 7 as type, 's' || n % 30 as step, n`
const source = `(select ${common} from generate_series(1, $1::int) as n) as given`
const fill = [
  `insert into holdfast.command_trouble (command_id, domain, type, since, error_kind, error_code, error_message, fingerprint)
   select gen_random_uuid(), domain, type, since, 'PERMANENT', code, 'm', fingerprint from ${source}`,
  `insert into holdfast.process_trouble (id, type, since, step, error_kind, error_code, error_message, fingerprint)
   select gen_random_uuid(), domain || '/' || type, since, step, 'PERMANENT', code, 'm', fingerprint from ${source}`,
  `insert into holdfast.workflow_dead_letter (
     id, workflow_id, number, workflow_name, workflow_version, step, step_type, kind, failure, fingerprint, reason, created_at
   )
   select gen_random_uuid(), gen_random_uuid(), 1, domain || '/' || type, 1, step, 'task', 'step', jsonb_build_object('code', code),
     fingerprint, '', since
   from ${source}`,
  `insert into holdfast.dispatch_dead_letter (item_type, item_id, since, error_code, error_message, fingerprint)
   select domain || '/' || type, 'i' || n, since, code, 'm', fingerprint from ${source}`,
]
