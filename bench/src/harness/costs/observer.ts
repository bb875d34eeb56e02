import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { findPostmaster, postgresCpu } from './postgres-cpu.js'

/** What the server has spent since it started; null where it cannot be known. */
export interface Spent {
  readonly walBytes: number
  readonly statements: number | null
  readonly cpuMicroseconds: number | null
}

export interface Observer {
  look(): Promise<Spent>
  /** Polls until nothing is left. Returns the moment (of `performance.now()`) at which that was certainly so. */
  untilNothingLeft(anythingLeft: string): Promise<number>
  close(): Promise<void>
}

/** Where to look from and what at. */
export interface Observed {
  /** The harness's own database: statements made there do not count. */
  readonly controlConnectionString: string
  readonly connectionString: string
  readonly countsStatements: boolean
}

const ASK_EVERY_MS = 5
const GIVE_UP_AFTER_MS = 60_000

/** Watches what a measured database costs, from a connection to another one. */
export async function openObserver(observed: Observed): Promise<Observer> {
  const control = new pg.Client(observed.controlConnectionString)
  const inside = new pg.Client(observed.connectionString)
  await control.connect()
  await inside.connect()
  const { rows } = await inside.query<{ pid: number; database: string; oid: string }>(
    'select pg_backend_pid() as pid, datname as database, oid from pg_database where datname = current_database()',
  )
  const [{ pid, database, oid } = { pid: 0, database: '', oid: '0' }] = rows
  const postmaster = findPostmaster(pid, database)

  async function look(): Promise<Spent> {
    const wal = await control.query<{ bytes: string }>("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as bytes")
    const statements = observed.countsStatements ? await countStatements(control, oid) : null
    const cpuMicroseconds = postmaster === undefined ? null : postgresCpu(postmaster)
    return { walBytes: Number(wal.rows[0]?.bytes), statements, cpuMicroseconds }
  }

  async function untilNothingLeft(anythingLeft: string): Promise<number> {
    const giveUpAt = performance.now() + GIVE_UP_AFTER_MS
    for (;;) {
      // What a statement sees was so when it was sent; the time it takes to find out is not the system's.
      const asked = performance.now()
      const answer = await inside.query<[boolean]>({ text: anythingLeft, rowMode: 'array' })
      if (answer.rows[0]?.[0] === false) return asked
      if (asked > giveUpAt) {
        throw new Error(
          `the system said it was done, but ${GIVE_UP_AFTER_MS / 1000} s later work is left: ${anythingLeft}`,
        )
      }
      await sleep(ASK_EVERY_MS)
    }
  }

  return {
    look,
    untilNothingLeft,
    async close() {
      await inside.end()
      await control.end()
    },
  }
}

async function countStatements(control: pg.Client, database: string): Promise<number> {
  const { rows } = await control.query<{ calls: string }>(
    'select coalesce(sum(calls), 0) as calls from pg_stat_statements where dbid = $1',
    [database],
  )
  return Number(rows[0]?.calls)
}
