import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { operatorCall } from '../kernel/database/operator-call.js'
import type { Duration } from '../kernel/duration/duration.js'
import { splitName } from '../kernel/ids/name.js'
import { checkOptions, choiceOption, durationOption, integerOption } from '../kernel/validation/options.js'
import type { DeadlineAction } from './states.js'

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
  const changes = JSON.stringify(checkInput(`configure ${name}`, input))
  await operatorCall(db, `configure ${name}`, (tx) => tx.run(configureStatement, [name, changes, actor, reason]))
}

function checkInput(where: string, input: ProcessSettingsInput): object {
  const given = checkOptions(where, input, ['waitTimeout', 'deadlineAction', 'concurrency', 'lease', 'poll'])
  const unless = <Value>(value: unknown, check: (value: unknown) => Value) => (value === null ? null : check(value))
  return {
    wait_timeout_ms: unless(given.waitTimeout, (value) =>
      durationOption(where, 'waitTimeout', value, { min: '1ms', default: undefined }),
    ),
    deadline_action: unless(given.deadlineAction, (value) =>
      choiceOption(where, 'deadlineAction', value, ['tsq', 'compensate', 'fail'], { default: undefined }),
    ),
    concurrency: unless(given.concurrency, (value) =>
      integerOption(where, 'concurrency', value, { min: 1, max: 100_000, default: undefined }),
    ),
    lease_ms: unless(given.lease, (value) =>
      durationOption(where, 'lease', value, { min: '100ms', max: '1d', default: undefined }),
    ),
    poll_ms: unless(given.poll, (value) =>
      durationOption(where, 'poll', value, { min: '10ms', max: '1h', default: undefined }),
    ),
  }
}

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
