import type { Executor } from '../database/executor.js'

/**
 * Clocks. The database's decides what is due; a process's own monotonic clock (`performance.now`) only measures how long
 * something took; and nothing may depend on `Date.now`.
 */

/** The time of the installation's clock. */
export async function databaseNow(executor: Executor): Promise<Date> {
  const [row] = await executor.run<{ now: Date }>({ name: 'clock.now', text: 'select holdfast.now() as now' })
  if (!row) throw new Error('the database did not tell its time')
  return row.now
}

/** Moves the installation's clock, for all connections; only for tests. */
export async function moveClock(executor: Executor, milliseconds: number): Promise<void> {
  await executor.run(moveStatement, [milliseconds])
}

/** How long the server has been up by its own, unmoved clock. */
export async function databaseUptimeMs(executor: Executor): Promise<number> {
  const [row] = await executor.run<{ uptime: number }>(uptimeStatement)
  return row?.uptime ?? 0
}

const moveStatement = {
  name: 'clock.move',
  text: "update holdfast.clock set shift = shift + $1::float8 * interval '1 ms'",
}

const uptimeStatement = {
  name: 'clock.uptime',
  text: `select (extract(epoch from pg_catalog.statement_timestamp() - pg_catalog.pg_postmaster_start_time()) * 1000::numeric)::float8 as uptime`,
}
