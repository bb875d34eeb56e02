import { withClient } from './with-client.js'

const LASTS_MS = 1_000

/**
 * Single-row commits per second on one connection: how fast this machine is at this moment. Results of two runs, or of
 * two rounds, can be compared as far as their yardsticks agree.
 */
export async function yardstick(connectionString: string): Promise<number> {
  return withClient(connectionString, async (client) => {
    await client.query('create table if not exists yardstick (id bigint generated always as identity, note text)')
    const insert = {
      name: 'yardstick',
      text: 'insert into yardstick (note) values ($1)',
      values: ['one row, one commit'],
    }
    await client.query(insert)
    const began = performance.now()
    let commits = 0
    while (performance.now() - began < LASTS_MS) {
      await client.query(insert)
      commits += 1
    }
    return commits / ((performance.now() - began) / 1000)
  })
}
