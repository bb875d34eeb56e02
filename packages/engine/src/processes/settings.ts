import type { Executor } from '../kernel/database/executor.js'
import type { DeadlineAction } from './states.js'

/** What operators have set for a definition without touching its code (P-23); what is not there is as the code says. */
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
  wait_timeout_ms: string | null
  deadline_action: DeadlineAction | null
  concurrency: number | null
  lease_ms: number | null
  poll_ms: number | null
}

export async function readSettings(db: Executor): Promise<ReadonlyMap<string, ProcessSettings>> {
  const rows = await db.run<Row>(statement)
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

const statement = {
  name: 'processes.read-settings',
  text: 'select type, wait_timeout_ms, deadline_action, concurrency, lease_ms, poll_ms from holdfast.process_setting',
}
