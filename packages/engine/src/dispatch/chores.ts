import type { Chores } from '../kernel/model/index.js'

/** Each statement inserts the differences that it made; a chore adds them up, so that reading them stays cheap. */
export const dispatchChores: Chores = {
  async dispatch_tallies(db) {
    await db.run({ name: 'dispatch.compact-tallies', text: 'select holdfast.compact_dispatch_tallies()' })
  },
}
