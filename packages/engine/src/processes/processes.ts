import type { By } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { Duration } from '../kernel/duration/duration.js'
import { parseId } from '../kernel/ids/id.js'
import {
  checkOptions,
  choiceOption,
  dateOption,
  durationOption,
  integerOption,
  textOption,
} from '../kernel/validation/options.js'
import type { ProcessEngine } from './engine.js'
import { findProcesses, type ProcessFilter, type ProcessRecord } from './queries/find-processes.js'
import { nameOf, type ProcessOf } from './reference.js'
import { checkAttributes } from './seal-start.js'
import { configure, listSettings, type ProcessSettingsInput, type ProcessSettingsRecord } from './settings.js'
import { processStatuses } from './states.js'

/** What a list of processes may be narrowed to. */
export interface ProcessListFilter extends Partial<Omit<ProcessFilter, 'ids' | 'longerThanMs'>> {
  /** In hand for longer than this: those that execute and do not come to rest. */
  readonly longerThan?: Duration
}

/** The processes of the installation, and what is set for their definitions. */
export interface Processes {
  /**
   * Those that fit, newest first; 100 unless `limit` says otherwise.
   *
   * @example
   * await hf.processes.list({ domain: 'payments', status: 'WAITING_FOR_ASYNC', attributes: { country: 'CH' } })
   * await hf.processes.list({ status: 'EXECUTING', longerThan: '10m' })
   */
  list(filter?: ProcessListFilter): Promise<ProcessRecord[]>
  /**
   * Sets, without touching code, what a definition's code leaves open; null gives it back to the code.
   *
   * @example
   * await hf.processes.configure(Payment, { concurrency: 50, waitTimeout: '4h' }, { actor: 'ann', reason: 'slow bank' })
   */
  configure(process: ProcessOf<never>, settings: ProcessSettingsInput, by: By): Promise<void>
  /** What is set for which definition. */
  settings(): Promise<ProcessSettingsRecord[]>
}

export function createProcesses(db: Database, engine: ProcessEngine): Processes {
  const { codec, settings } = engine
  return {
    async list(filter = {}) {
      return findProcesses(db, codec, checkFilter(filter))
    },
    async configure(process, input, by) {
      await configure(db, nameOf('configure', process), input, by)
      settings.forget()
    },
    settings: () => listSettings(db),
  }
}

const FILTERS = [
  'domain',
  'type',
  'status',
  'key',
  'attributes',
  'batchId',
  'parentId',
  'since',
  'until',
  'longerThan',
  'limit',
] as const satisfies readonly (keyof ProcessListFilter)[]

/** What the database would refuse in its own words. */
function checkFilter(all: ProcessListFilter): ProcessFilter {
  const where = 'processes.list'
  const given = checkOptions(where, all, FILTERS)
  const { longerThan, ...filter } = all
  choiceOption(where, 'status', given.status, processStatuses, { default: undefined })
  for (const name of ['domain', 'type'] as const) textOption(where, name, given[name], { default: undefined })
  checkAttributes(where, given.attributes)
  for (const name of ['batchId', 'parentId'] as const) {
    if (given[name] !== undefined) parseId(`${where}: ${name}`, given[name])
  }
  for (const name of ['since', 'until'] as const) dateOption(where, name, given[name], { default: undefined })
  const longerThanMs = durationOption(where, 'longerThan', longerThan, { default: undefined })
  return {
    ...filter,
    ...(longerThanMs === undefined ? {} : { longerThanMs }),
    limit: integerOption(where, 'limit', given.limit, { min: 1, default: 100 }),
  }
}
