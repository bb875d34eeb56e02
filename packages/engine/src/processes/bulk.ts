import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { operatorCallForMany } from '../kernel/database/operator-call.js'
import type { BulkCall, BulkOperator } from '../kernel/model/bulk.js'
import type { Runtime } from '../kernel/model/runtime.js'
import { completeWithin } from './completing.js'
import { type Operation, type OperationAnswer, operateProcesses, refusalOf } from './queries/operate-processes.js'
import type { ProcessRegistry } from './registry.js'

interface Parts extends Pick<Runtime, 'codec' | 'logger' | 'reports'> {
  readonly registry: ProcessRegistry
}

const OPERATIONS = {
  retry: 'RETRY',
  cancel: 'CANCEL',
  skip: 'RESOLVE',
} as const satisfies Record<Exclude<BulkCall['verb'], 'complete'>, Operation>

/** What operators do with many processes in troubleshooting: the part of `hf.trouble` that is about processes. */
export function createProcessBulk(db: Database, { codec, registry, logger, reports }: Parts): BulkOperator {
  function workFor(call: BulkCall, name: string) {
    const { verb, by, result } = call
    if (verb !== 'complete') {
      const operation = OPERATIONS[verb]
      return (tx: Executor, ids: readonly string[]) => operateProcesses(tx, operation, name, ids, by, optionsOf(call))
    }
    const parts = { db, codec, logger }
    const process = { name, code: registry.find(name) }
    return async (tx: Executor, ids: readonly string[]) => {
      const answers: OperationAnswer[] = []
      // In the order of ids, in which every statement of ours locks processes.
      for (const id of ids.toSorted()) answers.push(await completeWithin(tx, parts, process, id, by, { result }))
      return answers
    }
  }

  return {
    atOnce: 200,
    async operate(call, { domain, type }, items) {
      const name = `${domain}/${type}`
      const ids = items.map(({ id }) => id)
      const { answers } = await operatorCallForMany(db, `${call.verb} ${name}`, ids, workFor(call, name))
      const known = new Map(answers.map((answer) => [answer.reference, answer]))
      return ids.map((id) => {
        const answer = known.get(id) ?? { reference: id, outcome: 'busy', actual: null }
        const refused = refusalOf(call.verb === 'skip' ? 'retry' : call.verb, name, inTrouble(answer))
        if (answer.outcome === 'done' && call.verb === 'complete')
          reports.ended({ model: 'processes', domain, type }, 'completed')
        return refused
      })
    },
  }
}

function optionsOf({ verb, notDone, compensate }: BulkCall): object {
  switch (verb) {
    case 'retry':
      return { in_trouble: true, ...(notDone ? { not_done: true } : {}) }
    case 'cancel':
      return { in_trouble: true, mode: compensate ? 'COMPENSATE' : 'PLAIN' }
    default:
      return { in_trouble: true, outcome: 'skipped', nothing: true }
  }
}

/** For an operation on troubles, a process that does not exist is one that does not need a person. */
function inTrouble(answer: OperationAnswer): OperationAnswer {
  const gone = answer.outcome === 'unknown' || answer.outcome === 'other type'
  return gone ? { ...answer, outcome: 'not in trouble' } : answer
}
