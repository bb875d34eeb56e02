import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Database, ResultSource, Settled } from '../kernel/model/index.js'
import { findCircumstances } from './queries/find-circumstances.js'
import { findProcesses } from './queries/find-processes.js'
import { findStandings, type Standing } from './queries/find-standing.js'
import { notFound, ofOtherType, processOf } from './refused.js'
import { hasEnded } from './states.js'
import { lackingWorker, whyOf } from './why.js'

/** What a waiter names: a process of a definition, by its id or key. */
export const resultKey = (name: string, reference: string): string => `${name}\n${reference}`

function split(key: string): { readonly name: string; readonly reference: string } {
  const at = key.indexOf('\n')
  return { name: key.slice(0, at), reference: key.slice(at + 1) }
}

/** The ends of processes: a result, an error that says why there is none, or a need for a person. */
export function processResults(db: Database, codec: Codec): ResultSource<Standing> {
  return {
    model: 'processes',
    async find(keys) {
      const found = await findStandings(db, keys.map(split))
      return new Map(found.map((standing) => [resultKey(standing.name, standing.reference), standing]))
    },
    settle({ name, reference, id, type, status, result, resultNotes, code, step, message, awaited }): Settled {
      if (type !== name) return { error: ofOtherType(name, reference, type) }
      if (status === 'COMPLETED') {
        return { value: result === null ? null : codec.decode({ json: result, notes: resultNotes }) }
      }
      if (hasEnded(status)) {
        return { error: new HoldfastError('HF_NOT_COMPLETED', { ...processOf(type, id), status, code, message }) }
      }
      const work = { ...processOf(type, id), status }
      if (status === 'WAITING_FOR_TSQ') {
        return { error: new HoldfastError('HF_NEEDS_ATTENTION', { ...work, step: step ?? '', code, message }) }
      }
      if (awaited === null) return undefined
      const named = `its ${awaited.what} ${awaited.name} ${awaited.id} needs a person: ${awaited.message}`
      return {
        error: new HoldfastError('HF_NEEDS_ATTENTION', {
          ...work,
          step: awaited.step,
          code: awaited.code,
          message: named,
        }),
      }
    },
    unknown(key) {
      const { name, reference } = split(key)
      return notFound(name, reference)
    },
    async why({ id, type }) {
      const [process] = await findProcesses(db, codec, { ids: [id], limit: 1 })
      if (!process) throw notFound(type, id)
      const { status, waitingFor } = process
      const circumstances = await findCircumstances(db, { id, name: type, waitingFor })
      const { text, reason } = whyOf(process, circumstances)
      // What it waits for may come at any time: whether a worker can continue with it then is part of the answer.
      const lacking = reason === 'waiting' || reason === 'notDue' ? lackingWorker(process, circumstances) : undefined
      return { work: processOf(type, id), status, why: lacking ? `${text.replace(/\.$/, '')}; ${lacking}.` : text }
    },
  }
}
