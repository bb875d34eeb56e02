import type { Duration } from '../kernel/duration/duration.js'
import { splitName } from '../kernel/ids/name.js'
import { type By, checkBy, type Database, type Executor, operatorCall } from '../kernel/model/index.js'
import { choice, declareOptions, duration, integer, orNull } from '../kernel/validation/declared.js'
import { type DeadlineAction, deadlineActions } from './states.js'

/** Settings that operators have changed for a definition; the others are those of the code. */
export interface ProcessSettings {
  readonly waitTimeoutMs?: number
  readonly deadlineAction?: DeadlineAction
  readonly concurrency?: number
  readonly leaseMs?: number
  readonly pollMs?: number
}

const FRESH_FOR = 1_000

/** The settings as they were at most a second ago. */
export function createSettings(db: Executor) {
  let known: Promise<ReadonlyMap<string, ProcessSettings>> | undefined
  let readAt = Number.NEGATIVE_INFINITY

  return {
    async of(type: string): Promise<ProcessSettings> {
      if (!known || performance.now() - readAt > FRESH_FOR) {
        readAt = performance.now()
        known = readSettings(db)
        known.catch(() => {
          known = undefined
        })
      }
      return (await known).get(type) ?? {}
    },
    forget() {
      known = undefined
    },
  }
}

export type SettingsCache = ReturnType<typeof createSettings>

interface Row {
  type: string
  updated_at: Date
  wait_timeout_ms: string | null
  deadline_action: DeadlineAction | null
  concurrency: number | null
  lease_ms: number | null
  poll_ms: number | null
}

async function readSettings(db: Executor): Promise<ReadonlyMap<string, ProcessSettings>> {
  const rows = await db.run<Row>(readStatement)
  return new Map(rows.map((row) => [row.type, toSettings(row)]))
}

function toSettings(row: Row): ProcessSettings {
  return {
    ...(row.wait_timeout_ms === null ? {} : { waitTimeoutMs: Number(row.wait_timeout_ms) }),
    ...(row.deadline_action === null ? {} : { deadlineAction: row.deadline_action }),
    ...(row.concurrency === null ? {} : { concurrency: row.concurrency }),
    ...(row.lease_ms === null ? {} : { leaseMs: row.lease_ms }),
    ...(row.poll_ms === null ? {} : { pollMs: row.poll_ms }),
  }
}

/** What an operator may set for a definition; null: the value of its code or of the worker. */
export interface ProcessSettingsInput {
  /** For waits without a `timeout`. */
  readonly waitTimeout?: Duration | null
  readonly deadlineAction?: DeadlineAction | null
  /** How many may execute at once, over all workers. Applies from the next claim on. */
  readonly concurrency?: number | null
  /** For workers that start from now on. */
  readonly lease?: Duration | null
  readonly poll?: Duration | null
}

/** What is set for a definition: durations in milliseconds, null where its code decides. */
export interface ProcessSettingsRecord {
  readonly domain: string
  readonly type: string
  readonly waitTimeout: number | null
  readonly deadlineAction: DeadlineAction | null
  readonly concurrency: number | null
  readonly lease: number | null
  readonly poll: number | null
  readonly updatedAt: Date
}

export async function listSettings(db: Executor, name?: string): Promise<ProcessSettingsRecord[]> {
  const rows = await db.run<Row>(readStatement)
  const asked = name === undefined ? rows : rows.filter(({ type }) => type === name)
  return asked.map((row) => {
    const { domain, type } = splitName(row.type)
    const {
      waitTimeoutMs = null,
      deadlineAction = null,
      concurrency = null,
      leaseMs = null,
      pollMs = null,
    } = toSettings(row)
    const set = { waitTimeout: waitTimeoutMs, deadlineAction, concurrency, lease: leaseMs, poll: pollMs }
    return { domain, type, ...set, updatedAt: row.updated_at }
  })
}

/** Sets them, audited with actor and reason. Settings that are not named stay. */
export async function configure(db: Database, name: string, input: ProcessSettingsInput, by: By): Promise<void> {
  const { actor, reason } = checkBy('configure', by)
  const { waitTimeout, deadlineAction, concurrency, lease, poll } = checkInput(`configure ${name}`, input)
  const changes = JSON.stringify({
    wait_timeout_ms: waitTimeout,
    deadline_action: deadlineAction,
    concurrency,
    lease_ms: lease,
    poll_ms: poll,
  })
  await operatorCall(db, `configure ${name}`, (tx) => tx.run(configureStatement, [name, changes, actor, reason]))
}

const checkInput = declareOptions({
  waitTimeout: orNull(duration({ min: '1ms' })),
  deadlineAction: orNull(choice(deadlineActions)),
  concurrency: orNull(integer({ min: 1, max: 100_000 })),
  lease: orNull(duration({ min: '100ms', max: '1d' })),
  poll: orNull(duration({ min: '10ms', max: '1h' })),
})

const readStatement = {
  name: 'processes.read-settings',
  text: `
    select type, wait_timeout_ms, deadline_action, concurrency, lease_ms, poll_ms, updated_at
    from holdfast.process_setting
    order by type`,
}

const configureStatement = {
  name: 'processes.configure',
  text: 'select holdfast.configure_process($1, $2::text::jsonb, $3, $4)',
}
