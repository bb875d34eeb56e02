import { HoldfastError } from '../kernel/errors.js'
import {
  type BulkCall,
  type BulkItem,
  type BulkOperator,
  type BulkOutcome,
  createBulk,
  type Database,
  type Executor,
  type Runtime,
} from '../kernel/model/index.js'
import { completeWithin } from './completing.js'
import { type Operation, operateProcesses, refusalOf } from './queries/operate-processes.js'
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
  /** One that cannot be read is refused alone: nothing was written yet. */
  async function completeAll(
    tx: Executor,
    name: string,
    items: readonly BulkItem[],
    { by, result }: BulkCall,
    committed: () => void,
  ) {
    const process = { name, code: registry.find(name) }
    const outcomes: BulkOutcome[] = []
    for (const { id } of items) {
      try {
        const answer = await completeWithin(tx, { db, codec, logger }, process, id, by, { result })
        const refused = refusalOf('complete', name, answer)
        // One whose failed compensations count as done now has not ended yet.
        outcomes.push(answer.outcome === 'done' ? { committed } : { refused })
      } catch (error) {
        if (!(error instanceof HoldfastError && error.code === 'HF_NOT_DECODABLE')) throw error
        outcomes.push({ refused: error })
      }
    }
    return outcomes
  }

  return createBulk(db, {
    model: 'processes',
    atOnce: 200,
    troubles: {
      from: `
    join holdfast.process on process.id = asked.id::uuid
    join holdfast.process_trouble as trouble on trouble.id = asked.id::uuid and trouble.type = $1`,
      since: 'trouble.since',
      of: 'process, trouble',
    },
    async prepare(call, of) {
      const { verb, by } = call
      const name = `${of.domain}/${of.type}`
      if (verb === 'complete') {
        const committed = () => reports.ended({ model: 'processes', ...of }, 'completed')
        return (tx, items) => completeAll(tx, name, items, call, committed)
      }
      return async (tx, items) => {
        const ids = items.map(({ id }) => id)
        const answers = await operateProcesses(tx, OPERATIONS[verb], name, ids, by, optionsOf(call))
        const known = new Map(answers.map((answer) => [answer.reference, answer]))
        return ids.map((id) => {
          const answer = known.get(id) ?? { reference: id, outcome: 'not in trouble', actual: null }
          return { refused: refusalOf(verb === 'skip' ? 'retry' : verb, name, answer) }
        })
      }
    },
  })
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
