import type { FailureGroup, TroubleFilter } from '../commands/index.js'
import type { By } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import type { Duration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { isId, parseId } from '../kernel/ids/id.js'
import type { Logger } from '../kernel/logger.js'
import type { Reports } from '../kernel/reports/reports.js'
import type { Results } from '../kernel/results/results.js'
import {
  checkOptions,
  choiceOption,
  dateOption,
  durationOption,
  integerOption,
  textOption,
} from '../kernel/validation/options.js'
import type { ResponseSchemas } from './context.js'
import type { ProcessEngine } from './engine.js'
import { createProcessOperations, type ProcessOperations } from './operations.js'
import { findProcesses, type ProcessFilter, type ProcessRecord } from './queries/find-processes.js'
import { findTimeline } from './queries/find-timeline.js'
import {
  countProcessTrouble,
  groupProcessTrouble,
  listProcessTrouble,
  type TroubledProcess,
} from './queries/list-process-trouble.js'
import { checkReference, nameOf, type ProcessOf } from './reference.js'
import { processResults, resultKey } from './results.js'
import { checkAttributes } from './seal-start.js'
import { configure, listSettings, type ProcessSettingsInput, type ProcessSettingsRecord } from './settings.js'
import { processStatuses } from './states.js'
import { type TimelineEntry, timelineOf } from './timeline.js'

/** What a list of processes may be narrowed to. */
export interface ProcessListFilter extends Partial<Omit<ProcessFilter, 'ids' | 'longerThanMs'>> {
  /** In hand for longer than this: those that execute and do not come to rest. */
  readonly longerThan?: Duration
}

/** Looking at processes, waiting for them, repairing them, and setting what their code leaves open. */
export interface Processes extends ProcessOperations {
  /** One process with everything that happened to it; the latest 1,000 records unless `timeline` says otherwise. */
  get<Responses extends ResponseSchemas, Result>(
    process: ProcessOf<Responses, Result>,
    idOrKey: string,
    options?: { readonly timeline?: number },
  ): Promise<ProcessRecord<Result> & { readonly timeline: readonly TimelineEntry[] }>
  /**
   * Those that fit, newest first; 100 unless `limit` says otherwise.
   *
   * @example
   * await hf.processes.list({ domain: 'payments', status: 'WAITING_FOR_ASYNC', attributes: { country: 'CH' } })
   * await hf.processes.list({ status: 'EXECUTING', longerThan: '10m' })
   */
  list(filter?: ProcessListFilter): Promise<ProcessRecord[]>
  /** Waits for the end (30 s unless told) and answers the result; an error where it did not complete. */
  result<Responses extends ResponseSchemas, Result>(
    process: ProcessOf<Responses, Result>,
    idOrKey: string,
    options?: { readonly timeout?: Duration },
  ): Promise<Result>
  /** What is in troubleshooting: listed, counted, and grouped by what failed alike. */
  readonly troubles: {
    list(filter?: TroubleFilter): Promise<TroubledProcess[]>
    count(filter?: TroubleFilter): Promise<number>
    groups(filter?: TroubleFilter): Promise<FailureGroup[]>
  }
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

export function createProcesses(
  db: Database,
  engine: ProcessEngine,
  { logger, results, reports }: { readonly logger: Logger; readonly results: Results; readonly reports: Reports },
): Processes {
  const { codec, registry, settings } = engine
  const ends = processResults(db, codec)
  return {
    ...createProcessOperations(db, { codec, registry, logger, reports }),
    async get<Responses extends ResponseSchemas, Result>(
      process: ProcessOf<Responses, Result>,
      idOrKey: string,
      options: { readonly timeline?: number } = {},
    ) {
      const name = nameOf('get', process)
      const given = checkOptions(`get ${name}`, options, ['timeline'])
      const most = integerOption(`get ${name}`, 'timeline', given.timeline, { min: 0, max: 1_000_000, default: 1_000 })
      const record = await findOne(process, name, checkReference(`get ${name}`, idOrKey))
      const timeline = timelineOf(record.createdAt, await findTimeline(db, record.id, most), codec)
      // The worker encoded what the typed `execute` returned.
      return { ...(record as ProcessRecord<Result>), timeline }
    },
    async list(filter = {}) {
      return findProcesses(db, codec, checkFilter(filter))
    },
    async result<Responses extends ResponseSchemas, Result>(
      process: ProcessOf<Responses, Result>,
      idOrKey: string,
      options: { readonly timeout?: Duration } = {},
    ) {
      const name = nameOf('result', process)
      const { timeout } = checkOptions(`result ${name}`, options, ['timeout'])
      const limit = durationOption(`result ${name}`, 'timeout', timeout, { default: '30s' })
      const reference = checkReference(`result ${name}`, idOrKey)
      return (await results.wait(ends, resultKey(name, reference), limit)) as Result
    },
    troubles: {
      list: async (filter) => listProcessTrouble(db, codec, checkTroubleFilter('list', filter)),
      count: async (filter) => countProcessTrouble(db, checkTroubleFilter('count', filter)),
      groups: async (filter) => groupProcessTrouble(db, checkTroubleFilter('groups', filter)),
    },
    async configure(process, input, by) {
      await configure(db, nameOf('configure', process), input, by)
      settings.forget()
    },
    settings: () => listSettings(db),
  }

  async function findOne(process: ProcessOf<never>, name: string, reference: string): Promise<ProcessRecord> {
    const named = isId(reference) ? { ids: [reference] } : { ...process, key: reference }
    const [record] = await findProcesses(db, codec, { ...named, limit: 1 })
    if (!record) throw new HoldfastError('HF_UNKNOWN_PROCESS', { id: reference, process: name })
    const actual = `${record.domain}/${record.type}`
    if (actual === name) return record
    throw new HoldfastError('HF_PROCESS_OF_OTHER_TYPE', { id: reference, process: name, actual })
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

function checkTroubleFilter(operation: string, filter: TroubleFilter = {}): TroubleFilter {
  const where = `troubles.${operation}`
  checkOptions(where, filter, ['domain', 'type', 'fingerprint', 'limit'])
  for (const name of ['domain', 'type', 'fingerprint'] as const)
    textOption(where, name, filter[name], { default: undefined })
  integerOption(where, 'limit', filter.limit, { min: 1, default: undefined })
  return filter
}
