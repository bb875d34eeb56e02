import type { Chores, Reports } from '../kernel/model/index.js'

/** How long a message may wait for a worker that handles its type, before it goes to troubleshooting. */
const UNHANDLED_AFTER = '1 hour'

export const commandChores = (reports: Reports): Chores => ({
  async command_sweep(db) {
    const domains = await db.run<{ domain: string }>({
      name: 'commands.domains',
      text: 'select domain from holdfast.command_queue',
    })
    for (const { domain } of domains) {
      const [row] = await db.run<{ swept: number }>(sweepStatement, [domain, UNHANDLED_AFTER])
      const swept = row?.swept ? await db.run<Swept & object>(sweptStatement, [domain, row.swept]) : []
      for (const { id, type, message } of swept) {
        reports.needsPerson({ model: 'commands', domain, type, id }, { code: 'NO_HANDLER', message })
      }
    }
  },
  async batch_tallies(db) {
    await db.run({ name: 'batches.fold', text: 'select holdfast.fold_idle_batches()' })
  },
})

interface Swept {
  readonly id: string
  readonly type: string
  readonly message: string
}

const sweepStatement = {
  name: 'commands.sweep',
  text: 'select holdfast.sweep_unhandled($1, $2::interval) as swept',
}
const sweptStatement = {
  name: 'commands.find-swept',
  text: `
    select command_id as id, type, error_message as message
    from holdfast.command_trouble
    where domain = $1 and error_code = 'NO_HANDLER'
    order by since desc
    limit $2`,
}
