import { testDatabase, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineCommand, defineDispatch, defineProcess, defineWorkflow, holdfast, processTarget } from './index.js'

const by = { actor: 'ann', reason: 'test' }

/** Each note is made with the rights of the role that called what was planted. */
const note = (what: string) => `insert into public.caught values (current_user, '${what}')`

const plantedFunctions = [
  ['unnest(text[])', 'setof text', 'select $1[1]'],
  ['unnest(uuid[])', 'setof uuid', 'select $1[1]'],
  ['json_agg(text)', 'json', "select '[]'::json"],
  ['min(text)', 'text', 'select $1'],
  ['jsonb_build_object(text, text)', 'jsonb', "select '{}'::jsonb"],
  ['to_jsonb(int)', 'jsonb', "select '1'::jsonb"],
  ['split_part(varchar, varchar, int)', 'text', "select ''::text"],
] as const

const plantedOperators = [
  ['*', 'interval', 'interval', 'interval', 'select $1'],
  ['*', 'int', 'interval', 'interval', 'select $2'],
  ['*', 'numeric', 'int', 'numeric', 'select $1'],
  ['=', 'text[]', 'text[]', 'boolean', 'select true'],
  ['->>', 'jsonb', 'jsonb', 'text', "select ''::text"],
  ['->', 'jsonb', 'jsonb', 'jsonb', 'select $1'],
  ['||', 'text', 'int', 'text', 'select $1'],
] as const

async function plant(attacker: pg.Client): Promise<void> {
  await attacker.query('create table public.caught (role text, what text); grant insert on public.caught to public')
  for (const [signature, returns, body] of plantedFunctions) {
    await attacker.query(
      `create function public.${signature} returns ${returns} language sql as $$ ${note(signature)}; ${body} $$`,
    )
  }
  for (const [place, [name, left, right, returns, body]] of plantedOperators.entries()) {
    const called = `public.planted_${place}`
    await attacker.query(`
      create function ${called}(${left}, ${right}) returns ${returns} language sql as $$ ${note(name)}; ${body} $$;
      create operator public.${name} (leftarg = ${left}, rightarg = ${right}, function = ${called})`)
  }
}

test('K-27 what another role plants in public is never called, from the installation to operators’ calls', async () => {
  const { connectionString } = await testDatabase({ empty: true })
  const owner = new pg.Client({ connectionString })
  await owner.connect()
  const role = `hf_attacker_${process.pid}_${Date.now()}`
  await owner.query(`create role ${role} login password 'attacker'; grant create, usage on schema public to ${role}`)
  onTestFinished(async () => {
    await owner.query(`drop owned by ${role}; drop role ${role}`)
    await owner.end()
  })
  const asAttacker = new URL(connectionString)
  asAttacker.username = role
  asAttacker.password = 'attacker'
  const attacker = new pg.Client({ connectionString: asAttacker.href })
  await attacker.connect()
  onTestFinished(() => attacker.end())
  await plant(attacker)
  // The trap works: an unqualified call walks into it.
  await owner.query("select unnest(array['x']::text[]) limit 1")
  await owner.query("select 2::int * interval '1 s'")
  const trapped = await owner.query<{ what: string }>('delete from public.caught returning what')
  expect(trapped.rows.map(({ what }) => what)).toEqual(['unnest(text[])', '*'])

  const hf = await holdfast({ connectionString })
  onTestFinished(() => hf.close())
  const Pay = defineCommand('planted', 'Pay')
  const Refund = defineProcess('planted', 'Refund', {
    state: z.object({ n: z.number() }),
    responses: { confirmed: { data: z.object({}), apply: () => undefined } },
    async execute(ctx) {
      await ctx.event('confirmed', 'confirmed')
      return ctx.step('refund', () => 'refunded')
    },
  })
  const Flow = defineWorkflow('test', 'planted').step('ship', 'planted ship').build()
  const Settle = defineProcess('planted', 'Settle', { state: z.object({}), execute: async () => undefined })
  const Settlement = defineDispatch('planted', 'Items', {
    target: processTarget(Settle),
    settings: { dispatchInterval: 0, jitterWindow: 0 },
  })
  hf.handle(Pay, async () => 'paid')
  hf.register(Refund)
  hf.handle('planted ship', async () => 'shipped')
  hf.register(Settle)
  hf.register(Settlement)
  const worker = await hf.run({ poll: '50ms', lease: '2s' })
  onTestFinished(async () => void (await worker.stop()))

  expect(await (await hf.send(Pay, {})).result()).toBe('paid')
  const { id } = await hf.start(Refund, { n: 1 }, { immediate: false })
  await hf.process(Refund, id).respond('confirmed', {})
  expect(await hf.process(Refund, id).result()).toBe('refunded')
  const instance = await hf.start(Flow, {})
  expect(await hf.workflow(instance.id).result()).toBe('shipped')
  await hf.schedule(Settlement, { key: 'S-1', context: {}, startAt: new Date(0) })
  await waitFor('the item has ended', async () => (await hf.item(Settlement, 'S-1').get()).status === 'COMPLETED')
  await hf.pause({ domain: 'planted' }, by)
  await hf.resume({ domain: 'planted' }, by)
  await hf.queues.create('planted')
  await hf.queues.sendBatch('planted', [{ a: 1 }], { headers: [{ b: 2 }] })
  await hf.dispatch.plan(Settlement)
  await hf.trouble.groups({ assignedTo: 'ann' })
  await hf.trouble.list()
  await hf.trouble.assign('all', by, { to: 'ann' })
  await hf.close()

  expect((await owner.query('select * from public.caught')).rows).toEqual([])
})
