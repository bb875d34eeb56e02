import { holdfast } from 'holdfast'
import { definitions, hang } from './definitions.mjs'

const connectionString = process.argv[2]
const hf = await holdfast({ connectionString, logger: false })
const all = definitions(connectionString)
hf.handle(all.Pay, all.pay)
hf.handle(all.Once, (data) => all.note(data.work, 'pay').then(hang), {
  inquire: async ({ work }) => ((await all.noted(work, 'pay')) ? { done: { paid: work } } : 'notDone'),
})
for (const one of [
  all.Child,
  all.Payment,
  all.Paused,
  all.Order,
  all.Settle,
  all.Settlement,
  all.Approvals,
  all.Remote,
  all.Shipping,
  all.Approval,
  all.Letters,
])
  hf.register(one)
for (const [name, handler] of Object.entries(all.handlers)) hf.workflows.handle(name, handler)
await hf.run({ concurrency: 50, lease: '5s', poll: '50ms' })
process.send('running')
