import type { Codec } from '../kernel/codec/codec.js'
import type { Notes } from '../kernel/codec/notes.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Failure } from '../kernel/failure/classify.js'
import { type Database, type ResultSource, type Settled, workOf } from '../kernel/model/index.js'
import { instanceNotFound } from './not-found.js'
import { findInstance } from './queries/find-instances.js'
import { findWhy } from './queries/find-why.js'
import { type InstanceStatus, instanceHasEnded } from './states.js'

interface Found {
  readonly id: string
  /** `domain/type` */
  readonly name: string
  readonly status: InstanceStatus
  readonly output: unknown
  readonly outputNotes: Notes | null
  readonly step: string | null
  readonly failure: Failure | null
}

/** The ends of workflow instances: an output, an error that says why there is none, or a need for a person. */
export function workflowResults(db: Database, codec: Codec): ResultSource<Found> {
  return {
    model: 'workflows',
    async find(ids) {
      return new Map((await db.run<Found & object>(findStatement, [ids])).map((found) => [found.id, found]))
    },
    settle({ id, name, status, output, outputNotes, step, failure }): Settled {
      if (status === 'COMPLETED') {
        return { value: output === null ? null : codec.decode({ json: output, notes: outputNotes }) }
      }
      const { code, message } = failure ?? { code: status, message: 'a person ended it' }
      const details = { ...workOf('workflows', name, id), status, code, message }
      if (instanceHasEnded(status)) return { error: new HoldfastError('HF_NOT_COMPLETED', details) }
      if (status !== 'DLQ') return undefined
      return { error: new HoldfastError('HF_NEEDS_ATTENTION', { ...details, step: step ?? '' }) }
    },
    unknown: (id) => instanceNotFound(id),
    async why({ id, name, status }) {
      const instance = await findInstance(db, codec, { id })
      if (!instance) throw instanceNotFound(id, name)
      return { work: workOf('workflows', name, id), status, why: (await findWhy(db, instance)).text }
    },
  }
}

const findStatement = {
  name: 'workflows.find-ends',
  text: `
    select workflow.id, workflow.name, status, output, output_notes as "outputNotes", failed_step as step, failure
    from pg_catalog.unnest($1::uuid[]) as asked (id)
    join holdfast.workflow on workflow.id = asked.id`,
}
