import type { By } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { Duration } from '../kernel/duration/duration.js'
import { parseId } from '../kernel/ids/id.js'
import { splitName } from '../kernel/ids/name.js'
import { type Page, readCursor, toPage } from '../kernel/model/page.js'
import { knownDefinitions } from '../kernel/results/presence.js'
import {
  checkOptions,
  choiceOption,
  dateOption,
  durationOption,
  integerOption,
  textOption,
} from '../kernel/validation/options.js'
import { checkAttributes } from './encode-start.js'
import type { ProcessEngine } from './engine.js'
import { countProcesses, findProcesses, type ProcessFilter, type ProcessRecord } from './queries/find-processes.js'
import { nameOf, type ProcessOf } from './reference.js'
import { configure, listSettings, type ProcessSettingsInput, type ProcessSettingsRecord } from './settings.js'
import { processStatuses } from './states.js'

/** What a list or a count of processes may be narrowed to. */
export interface ProcessListFilter extends Partial<Omit<ProcessFilter, 'ids' | 'longerThanMs' | 'after'>> {
  /** Those that have been executing for longer than this without an end or a suspension. */
  readonly longerThan?: Duration
  /** Where the page before ended. */
  readonly cursor?: string
}

/** A definition that the installation knows. */
export interface KnownProcess {
  readonly domain: string
  readonly type: string
  readonly version: number
  /** Workers that are alive and have it. */
  readonly liveWorkers: number
}

/** The processes of the installation, and what is set for their definitions. */
export interface Processes {
  /**
   * Processes that match, newest first, in pages. Default `limit`: 100. The next page begins at `cursor`.
   *
   * @example
   * const { items, cursor } = await hf.processes.list({ domain: 'payments', attributes: { country: 'CH' } })
   * await hf.processes.list({ status: 'EXECUTING', longerThan: '10m' })
   */
  list(filter?: ProcessListFilter): Promise<Page<ProcessRecord>>
  count(filter?: Omit<ProcessListFilter, 'cursor' | 'limit'>): Promise<number>
  /** The definitions of processes and managers that workers have or once had, by name and version. */
  definitions(): Promise<KnownProcess[]>
  /**
   * Changes settings of a definition at run time; null restores the value of the code.
   *
   * @example
   * await hf.processes.configure(Payment, { concurrency: 50, waitTimeout: '4h' }, { actor: 'ann', reason: 'slow bank' })
   */
  configure(process: ProcessOf<never>, settings: ProcessSettingsInput, by: By): Promise<void>
  /** What is set for a definition, or for all that have settings. */
  settings(process?: ProcessOf<never>): Promise<ProcessSettingsRecord[]>
}

export function createProcesses(db: Database, engine: ProcessEngine): Processes {
  const { codec, settings } = engine
  return {
    async list(filter = {}) {
      const { limit, ...which } = checkFilter('list', filter)
      return toPage(await findProcesses(db, codec, { ...which, limit: limit + 1 }), limit, placeOf)
    },
    async count(filter = {}) {
      const { limit: _, ...which } = checkFilter('count', filter)
      return countProcesses(db, which)
    },
    async definitions() {
      return (await knownDefinitions(db, 'processes')).map(({ name, version, liveWorkers }) => ({
        ...splitName(name),
        version,
        liveWorkers,
      }))
    },
    async configure(process, input, by) {
      await configure(db, nameOf('configure', process), input, by)
      settings.forget()
    },
    async settings(process) {
      return listSettings(db, process && nameOf('settings', process))
    },
  }
}

const FILTERS = [
  'domain',
  'type',
  'status',
  'key',
  'attributes',
  'waitingFor',
  'batch',
  'parent',
  'since',
  'until',
  'longerThan',
] as const satisfies readonly (keyof ProcessListFilter)[]

const placeOf = ({ createdAt, id }: ProcessRecord) => ({ createdAt, id })

/** Values that the database would refuse with an error of its own. */
function checkFilter(operation: 'list' | 'count', all: ProcessListFilter): ProcessFilter {
  const where = `processes.${operation}`
  const given = checkOptions(where, all, operation === 'list' ? [...FILTERS, 'cursor', 'limit'] : FILTERS)
  const { longerThan, cursor, ...filter } = all
  choiceOption(where, 'status', given.status, processStatuses, { default: undefined })
  for (const name of ['domain', 'type', 'waitingFor'] as const) {
    textOption(where, name, given[name], { default: undefined })
  }
  checkAttributes(where, given.attributes)
  for (const name of ['batch', 'parent'] as const) {
    if (given[name] !== undefined) parseId(`${where}: ${name}`, given[name])
  }
  for (const name of ['since', 'until'] as const) dateOption(where, name, given[name], { default: undefined })
  const longerThanMs = durationOption(where, 'longerThan', longerThan, { default: undefined })
  return {
    ...filter,
    ...(longerThanMs === undefined ? {} : { longerThanMs }),
    after: readCursor(where, cursor),
    limit: integerOption(where, 'limit', given.limit, { min: 1, max: 1_000_000, default: 100 }),
  }
}
