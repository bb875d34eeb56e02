import { testDatabase } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import { createDomains } from '../../commands/index.js'
import { openDatabase } from '../database/open.js'

test.each(['holdfast', 'pgmq'])('K-27 every function of the schema %s fixes its search path', async (schema) => {
  const db = await openDatabase({ connectionString: (await testDatabase()).connectionString })
  onTestFinished(() => db.close())
  // Those that are made for a queue when it is made, too.
  await createDomains(db).ready('orders')
  const functions = await db.run<{ name: string; fixed: boolean; bound: boolean }>(
    {
      name: 'test.functions',
      text: `
        select
          oid::regprocedure::text as name,
          coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false) as fixed,
          prosqlbody is not null as bound
        from pg_catalog.pg_proc
        where pronamespace = $1::regnamespace
        order by 1`,
    },
    [schema],
  )
  expect(functions.length).toBeGreaterThan(schema === 'holdfast' ? 100 : 50)
  expect(functions.filter(({ fixed, bound }) => !fixed && !bound)).toEqual([])
  if (schema === 'holdfast') {
    // Only what PostgreSQL has to be able to inline, or what is called for every row, goes without the setting.
    expect(functions.filter(({ bound }) => bound).length).toBeLessThan(16)
    expect(functions.map(({ name }) => name)).toContainEqual(expect.stringMatching(/take_orders__commands/))
  }
})
