// Makes the fixture of the upgrade test with the release before: node make.mjs <connection string>
import { fork } from 'node:child_process'
import { holdfast } from 'holdfast'
import pg from 'pg'
import { definitions } from './definitions.mjs'

const connectionString = process.argv[2]
const sql = new pg.Pool({ connectionString, max: 3 })
await sql.query('create table public.effect (work text not null, call text not null)')
await sql.query('create table public.remote (id text primary key, work text not null)')
const hf = await holdfast({ connectionString, logger: false })
const all = definitions(connectionString)
const ann = { actor: 'ann', reason: 'for the fixture' }
const deferred = { deferred: true }

await hf.queues.create('upgrade__answers')
const child = fork(new URL('./worker.mjs', import.meta.url), [connectionString])
process.on('exit', () => child.kill('SIGKILL'))
process.on('uncaughtException', (error) => {
  console.log(error)
  process.exit(1)
})
await new Promise((resolve) => child.once('message', resolve))

await hf.pause({ definition: all.Paused.name }, ann).catch(async (error) => {
  console.log('pause', error.message)
})
for (const work of ['c-done 1', 'c-killed 1', 'c-killed 2', 'c-troubled 1', 'c-troubled 2', 'c-retry 1']) {
  await hf.send(all.Pay, { work }, { replyTo: 'upgrade__answers', maxAttempts: 1000 })
}
await hf.send(all.Once, { work: 'c-once 1' }, { replyTo: 'upgrade__answers' })
const whole = await hf.batches.create(
  all.Pay,
  [{ data: { work: 'c-batch 1' } }, { data: { work: 'c-killed in a batch' } }],
  { name: 'whole' },
)
const open = await hf.batches.open('upgrade', { name: 'open' })
await hf.send(all.Pay, { work: 'c-batch 2' }, { batchId: open })
for (const work of [
  'p-wait 1',
  'p-wait 2',
  'p-inbox 1',
  'p-undo 1',
  'p-killed 1',
  'p-killed 2',
  'p-unknown 1',
  'p-retry 1',
  'p-troubled 1',
  'p-sleep 1',
  'p-parent 1',
  'p-command 1',
  'p-done 1',
]) {
  await hf.start(all.Payment, { work }, { key: work, ...deferred })
}
await hf.start(all.Paused, { work: 'p-paused 1' }, { key: 'p-paused 1', ...deferred })
for (const work of ['m-killed 1', 'm-done 1']) await hf.start(all.Order, { work }, { key: work })
for (const work of ['w-killed 1', 'w-retry 1', 'w-rollback 1'])
  await hf.workflows.start(all.Shipping, { work }, { key: work })
for (const work of ['w-human 1', 'w-human 2']) await hf.workflows.start(all.Approval, { work }, { key: work })
for (const work of ['w-dlq 1', 'w-dlq 2']) await hf.workflows.start(all.Letters, { work }, { key: work })
const soon = new Date()
await hf.dispatch.schedule(all.Settlement, [
  { itemId: 'd-dispatched 1', context: { work: 'd-dispatched 1' }, execTime: soon },
])
await hf.dispatch.schedule(all.Approvals, [{ itemId: 'dw 1', context: { work: 'dw 1' }, execTime: soon }])
await hf.dispatch.schedule(
  all.Remote,
  ['r-started 1', 'r-dead 1'].map((work) => ({ itemId: work, context: { work }, execTime: soon })),
)
await hf.limits.set('upgrade_api', { ticketsPerSecond: 5 }, ann).catch((error) => console.log('limits', error.message))

const states = async () => {
  const { rows } = await sql.query(`
    select 'commands' as model, status, count(*)::int as n from holdfast.command group by 2
    union all select 'processes', type || ' ' || status, count(*)::int from holdfast.process group by 2
    union all select 'workflows', workflow.status, count(*)::int from holdfast.workflow group by 2
    union all select 'steps', name || ' ' || status, count(*)::int from holdfast.workflow_step group by 2
    union all select 'items', item_type || ' ' || status, count(*)::int from holdfast.dispatch_item group by 2
    order by 1, 2`)
  return rows.map(({ model, status, n }) => `${model} ${status} ${n}`)
}
let last = ''
for (let quiet = 0; quiet < 5; ) {
  await new Promise((resolve) => setTimeout(resolve, 1000))
  const now = (await states()).join('\n')
  quiet = now === last ? quiet + 1 : 0
  last = now
}
await hf.dispatch.schedule(all.Remote, [{ itemId: 'r-lost 1', context: { work: 'r-lost 1' }, execTime: soon }])
for (;;) {
  const { rowCount } = await sql.query(`select from public.remote where work = 'r-lost 1'`)
  if (rowCount > 0) break
  await new Promise((resolve) => setTimeout(resolve, 200))
}
child.kill('SIGKILL')
await new Promise((resolve) => child.once('exit', resolve))

// What nobody has seen when the release changes.
for (const work of ['c-new 1', 'c-new 2']) await hf.send(all.Pay, { work }, { replyTo: 'upgrade__answers' })
await hf.start(all.Payment, { work: 'p-new 1' }, { key: 'p-new 1', ...deferred })
await hf.start(all.Order, { work: 'm-new 1' }, { key: 'm-new 1' })
await hf.workflows.start(all.Approval, { work: 'w-new 1' }, { key: 'w-new 1' })
await hf.dispatch.schedule(all.Settlement, [
  { itemId: 'd-new 1', context: { work: 'd-new 1' }, execTime: new Date(Date.now() + 5_000) },
])
await hf.dispatch.schedule(all.Remote, [
  { itemId: 'r-new 1', context: { work: 'r-new 1' }, execTime: new Date(Date.now() + 5_000) },
])
await sql.query(`select holdfast.respond('upgrade', 'Payment', 'p-inbox 1', 'approved', '{"by": "sql"}')`)
console.log((await states()).join('\n'))
console.log(
  (await sql.query('select work, call, count(*)::int from public.effect group by 1, 2 order by 1, 2')).rows
    .map((row) => Object.values(row).join(' | '))
    .join('\n'),
)
console.log({ whole, open })
await hf.close()
await sql.end()
process.exit(0)
