import { testDatabase } from '@holdfast/testing/internal'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { clientStatements, unqualifiedCalls } from './client-statements.fixture.js'

const statements = clientStatements()

test('K-27 every function that a statement of the library calls is named with its schema', () => {
  expect(statements.length).toBeGreaterThan(180)
  const open = statements.flatMap(({ place, text }) => unqualifiedCalls(text).map((name) => `${place} ${name}`))
  expect(open).toEqual([])
})

test('K-27 no statement of the library calls an operator that another role has planted', async () => {
  const client = new pg.Client({ connectionString: (await testDatabase()).connectionString })
  await client.connect()
  onTestFinished(() => client.end())
  const parser = await createParser(client)
  const before = await parser.parseAll()
  expect(before.failed).toEqual([])
  const planted = await plantOperators(client, before.trees)
  // With an operator in `public` for each pair of types that PostgreSQL has none for, whatever is not decided by PostgreSQL's own
  // exact match finds one of them.
  expect(planted.size).toBeGreaterThan(1_000)
  const { trees, failed } = await parser.parseAll()
  const called = [...trees].flatMap(([place, tree]) =>
    operatorsIn(tree)
      .filter((oid) => planted.has(oid))
      .map((oid) => `${place}: ${planted.get(oid)}`),
  )
  expect([...failed, ...called]).toEqual([])
})

/** Lets PostgreSQL say how it understands each statement (`debug_print_parse`). */
async function createParser(client: pg.Client) {
  await client.query('set client_min_messages = log; set debug_pretty_print = off')
  let trees: string[] = []
  client.on('notice', ({ message, detail }) => {
    if (message === 'parse tree:' && detail) trees.push(detail)
  })
  return {
    async parseAll() {
      const parsed = new Map<string, string>()
      const failed: string[] = []
      for (const { place, text } of statements) {
        trees = []
        try {
          await client.query(`set debug_print_parse = on; prepare hf_test as ${text}`)
          parsed.set(place, trees.join('\n'))
        } catch (error) {
          failed.push(`${place}: ${(error as Error).message}`)
        }
        await client.query('set debug_print_parse = off; deallocate all')
      }
      return { trees: parsed, failed }
    },
  }
}

const operatorsIn = (tree: string): number[] =>
  [...tree.matchAll(/:opnos? \(?o? ?([\d ]+)/g)].flatMap(([, oids]) => (oids as string).trim().split(' ').map(Number))

const typesIn = (tree: string): number[] => [...tree.matchAll(/:\w*type (\d+)/g)].map(([, oid]) => Number(oid))

/** Plants each operator for each pair of types that occur in a statement with it and that PostgreSQL has no operator for. */
async function plantOperators(client: pg.Client, trees: ReadonlyMap<string, string>): Promise<Map<number, string>> {
  const all = [...trees.values()]
  await client.query('set client_min_messages = warning')
  await client.query(plantFunction)
  const used = new Set(
    all.flatMap((tree) => operatorsIn(tree).flatMap((oid) => typesIn(tree).map((type) => `${oid} ${type}`))),
  )
  const pairs = [...used].map((pair) => pair.split(' '))
  await client.query('select pg_temp.plant($1::oid[], $2::oid[])', [
    pairs.map(([operator]) => operator),
    pairs.map(([, type]) => type),
  ])
  await client.query('set client_min_messages = log')
  const { rows } = await client.query<{ oid: number; name: string }>(
    "select oid::int, oid::regoperator::text as name from pg_operator where oprnamespace = 'public'::regnamespace",
  )
  return new Map(rows.map(({ oid, name }) => [oid, name]))
}

const plantFunction = `
  create function pg_temp.plant(operators oid[], types oid[]) returns void language plpgsql as $$
  declare
    v record;
  begin
    for v in
      with used as (
        select distinct operator.oprname, type.oid as type
        from unnest(operators, types) as asked (operator, type)
        join pg_operator as operator on operator.oid = asked.operator
        join pg_type as type on type.oid = asked.type and type.typtype in ('b', 'd', 'e')
      )
      select oprname, lefts.type::regtype as lefts, rights.type::regtype as rights
      from used as lefts
      join used as rights using (oprname)
      where not exists (
        select from pg_operator as own
        where own.oprname = lefts.oprname
          and own.oprnamespace = 'pg_catalog'::regnamespace
          and own.oprleft = lefts.type
          and own.oprright = rights.type
      )
    loop
      execute format(
        'create or replace function public.planted(%s, %s) returns box language sql as %L', v.lefts, v.rights, 'select null::box'
      );
      execute format(
        'create operator public.%s (leftarg = %s, rightarg = %s, function = public.planted)', v.oprname, v.lefts, v.rights
      );
    end loop;
  end
  $$`
