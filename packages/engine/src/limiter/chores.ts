import type { Chores } from '../kernel/chores/chores.js'

/** Keys may be many and short-lived (one per tenant, say): unused buckets are removed every hour. */
export const limiterChores: Chores = {
  async rate_limit_buckets(db) {
    await db.run({ name: 'limits.remove-idle-buckets', text: 'select holdfast.remove_idle_buckets()' })
  },
}
