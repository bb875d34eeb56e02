import type { Chores } from '../kernel/chores/chores.js'

/** How long a message may wait for a worker that handles its type, before it goes to troubleshooting (C-09). */
const UNHANDLED_AFTER = '1 hour'

export const commandChores: Chores = {
  async command_sweep(db) {
    const domains = await db.run<{ domain: string }>({
      name: 'commands.domains',
      text: 'select domain from holdfast.command_queue',
    })
    for (const { domain } of domains) {
      await db.run({ name: 'commands.sweep', text: 'select holdfast.sweep_unhandled($1, $2::interval)' }, [
        domain,
        UNHANDLED_AFTER,
      ])
    }
  },
}
