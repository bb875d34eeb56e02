import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import { missingWorker, PAUSED, presenceIn } from '../kernel/results/presence.js'
import type { ResultSource, Settled } from '../kernel/results/results.js'
import { findProcesses } from './queries/find-processes.js'
import { findStandings, type Standing } from './queries/find-standing.js'
import { notFound } from './reference.js'
import { hasEnded } from './states.js'

/** What a waiter names: a process of a definition, by its id or key. */
export const resultKey = (name: string, reference: string): string => `${name}\n${reference}`

function split(key: string): { readonly name: string; readonly reference: string } {
  const at = key.indexOf('\n')
  return { name: key.slice(0, at), reference: key.slice(at + 1) }
}

/** The ends of processes: a result, an error that says why there is none, or a need for a person. */
export function processResults(db: Database, codec: Codec): ResultSource<Standing> {
  const isLive = presenceIn(db, 'processes')

  return {
    model: 'processes',
    what: 'process',
    async find(keys) {
      const found = await findStandings(db, keys.map(split))
      return new Map(found.map((standing) => [resultKey(standing.name, standing.reference), standing]))
    },
    settle({ name, reference, id, type, status, result, resultNotes, code, step, message }): Settled {
      if (type !== name) {
        return { error: new HoldfastError('HF_PROCESS_OF_OTHER_TYPE', { id: reference, process: name, actual: type }) }
      }
      if (status === 'COMPLETED') {
        return { value: result === null ? null : codec.decode({ json: result, notes: resultNotes }) }
      }
      if (hasEnded(status)) {
        return { error: new HoldfastError('HF_PROCESS_NOT_COMPLETED', { id, status, code, message }) }
      }
      if (status !== 'WAITING_FOR_TSQ') return undefined
      return {
        error: new HoldfastError('HF_NEEDS_ATTENTION', { what: 'process', id, code, step: step ?? '', message }),
      }
    },
    unknown(key) {
      const { name, reference } = split(key)
      return notFound(name, reference)
    },
    async why(_key, { id, type, managed }) {
      const [process] = await findProcesses(db, codec, { ids: [id], limit: 1 })
      if (!process) throw notFound(type, id)
      const { status, waitingFor, nextRetryAt, waitTimeoutAt, paused } = process
      if (paused) return { id, status, why: PAUSED }
      const until = nextRetryAt ?? waitTimeoutAt
      const waits = waitingFor ? [`waiting for ${waitingFor}${until ? ` until ${until.toISOString()}` : ''}`] : []
      return { id, status, why: [...waits, await worker(type, managed)].join('; ') }
    },
  }

  /** Step-based processes are driven by the replies to their commands. */
  async function worker(type: string, managed: boolean): Promise<string> {
    if (!(await isLive(type))) return missingWorker('processes', type)
    return managed ? 'a live worker has it; it goes on with the next reply' : 'a live worker has its definition'
  }
}
