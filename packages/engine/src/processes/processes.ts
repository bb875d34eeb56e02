import type { Duration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { splitName } from '../kernel/ids/name.js'
import {
  type By,
  type Database,
  definitionOf,
  knownDefinitions,
  listFilter,
  type Page,
  page,
  toPage,
  uuid,
} from '../kernel/model/index.js'
import { choice, declareOptions, duration, text } from '../kernel/validation/declared.js'
import { checkAttributes } from './encode-start.js'
import type { ProcessEngine } from './engine.js'
import { countProcesses, findProcesses, type ProcessFilter, type ProcessRecord } from './queries/find-processes.js'
import { codeOf, nameOf, type ProcessOf } from './reference.js'
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
  /** Settings of a name that no program has ever used would be stored, and never be read. */
  async function checkKnown(name: string, process: ProcessOf<never>): Promise<void> {
    if (codeOf(process, engine.registry) || 'kind' in process) return
    const [row] = await db.run<{ known: boolean }>(knownStatement, [name])
    if (!row?.known) throw new HoldfastError('HF_UNKNOWN_DEFINITION', definitionOf('processes', name))
  }
  return {
    async list(filter) {
      const { cursor: after, limit, longerThan, ...which } = checkList('processes.list', filter)
      const found = await findProcesses(db, codec, { ...which, longerThanMs: longerThan, after, limit: limit + 1 })
      return toPage(found, limit, placeOf)
    },
    async count(filter) {
      const { longerThan, ...which } = checkCount('processes.count', filter)
      return countProcesses(db, { ...which, longerThanMs: longerThan })
    },
    async definitions() {
      return (await knownDefinitions(db, 'processes')).map(({ name, version, liveWorkers }) => ({
        ...splitName(name),
        version,
        liveWorkers,
      }))
    },
    async configure(process, input, by) {
      const name = nameOf('configure', process)
      await checkKnown(name, process)
      await configure(db, name, input, by)
      settings.forget()
    },
    async settings(process) {
      return listSettings(db, process && nameOf('settings', process))
    },
  }
}

const filters = {
  ...listFilter,
  status: choice(processStatuses),
  attributes: checkAttributes,
  waitingFor: text(),
  batch: uuid,
  parent: uuid,
  longerThan: duration(),
}
const checkList = declareOptions({ ...filters, ...page })
const checkCount = declareOptions(filters)

const placeOf = ({ createdAt, id }: ProcessRecord) => ({ createdAt, id })

const knownStatement = {
  name: 'processes.is-known',
  text: `
    select exists (select from holdfast.worker_definition where model = 'processes' and name = $1)
      or exists (select from holdfast.process_setting where type = $1)
      or exists (select from holdfast.process_detail where type = $1) as known`,
}
