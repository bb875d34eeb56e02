import { isId } from '../kernel/ids/id.js'
import { checkResultOptions, type Database, type Results } from '../kernel/model/index.js'
import { declareOptions, integer } from '../kernel/validation/declared.js'
import type { ProcessEngine } from './engine.js'
import type { ProcessCalls } from './handle.js'
import type { ProcessOperations } from './operations.js'
import { findCircumstances } from './queries/find-circumstances.js'
import { findProcesses, type ProcessRecord } from './queries/find-processes.js'
import { findTimeline } from './queries/find-timeline.js'
import { checkReference, nameOf, type ProcessOf } from './reference.js'
import { notFound, ofOtherType } from './refused.js'
import { processResults, resultKey } from './results.js'
import { timelineOf } from './timeline.js'
import { whyOf } from './why.js'

/** What the handles of processes and managers call: one object per installation, shared by all handles. */
export function createProcessCalls(
  db: Database,
  { codec, respond }: ProcessEngine,
  { retry, resume, cancel, complete }: ProcessOperations,
  results: Results,
): ProcessCalls {
  const ends = processResults(db, codec)

  async function find(operation: string, process: ProcessOf<never>, idOrKey: string): Promise<ProcessRecord> {
    const name = nameOf(operation, process)
    const reference = checkReference(`${operation} ${name}`, idOrKey)
    const { domain, type } = process
    const named = isId(reference) ? { ids: [reference] } : { domain, type, key: reference }
    const [record] = await findProcesses(db, codec, { ...named, limit: 1 })
    if (!record) throw notFound(name, reference)
    const actual = `${record.domain}/${record.type}`
    if (actual === name) return record
    throw ofOtherType(name, reference, actual)
  }

  return {
    get: (process, idOrKey) => find('get', process, idOrKey),
    async result(process, idOrKey, options = {}) {
      const name = nameOf('result', process)
      const { timeout } = checkResultOptions(`result ${name}`, options)
      return results.wait(ends, resultKey(name, checkReference(`result ${name}`, idOrKey)), timeout)
    },
    async history(process, idOrKey, options = {}) {
      const { limit } = checkHistoryOptions(`history ${nameOf('history', process)}`, options)
      const { id, createdAt } = await find('history', process, idOrKey)
      return timelineOf(createdAt, await findTimeline(db, id, limit), codec)
    },
    async why(process, idOrKey) {
      const record = await find('why', process, idOrKey)
      const { id, waitingFor } = record
      return whyOf(record, await findCircumstances(db, { id, name: `${record.domain}/${record.type}`, waitingFor }))
    },
    respond: (process, idOrKey, name, data, options) => respond.respond(process, idOrKey, name, data, options),
    retry,
    resume,
    cancel,
    complete,
  }
}

const checkHistoryOptions = declareOptions({ limit: integer({ min: 0, max: 1_000_000, default: 1_000 }) })
