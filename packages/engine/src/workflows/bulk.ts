// What operators do with many dead letters at once: the workflows' part of `hf.trouble`. Each is decided by itself, in one transaction
// with others; one that is refused must leave the others as they are.

import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { lockedByOther, operatorCallForMany } from '../kernel/database/operator-call.js'
import { type ErrorCode, HoldfastError } from '../kernel/errors.js'
import { type BulkCall, type BulkItem, type BulkOperator, notInTrouble } from '../kernel/model/bulk.js'
import type { Answer, InstanceEvent } from './decide/instance-event.js'
import type { WorkflowEngine } from './engine.js'
import type { AppliedEvent } from './instance-events.js'

interface Operated {
  readonly item: BulkItem
  readonly applied?: AppliedEvent
  readonly refused?: HoldfastError
}

/** Another operator has acted, or the instance has continued by itself. */
const GONE: readonly ErrorCode[] = ['HF_WRONG_STATUS', 'HF_NOT_FOUND']

/** What operators do with many dead letters: the part of `hf.trouble` that is about workflows. */
export function createWorkflowBulk(db: Database, { codec, events }: WorkflowEngine): BulkOperator {
  /** One that is refused leaves the others alone: what refuses it is decided before anything is written. */
  async function one(tx: Executor, call: BulkCall, of: { domain: string; type: string }, item: BulkItem) {
    const { id, step } = item
    try {
      if (step === null) throw notInTrouble('workflows', of, id)
      if (call.verb === 'cancel') await lockDeadLetter(tx, of, id, step)
      return { item, applied: await events.operateWithin(tx, { id, event: eventOf(call, step, codec) }) }
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.status >= 500) throw error
      return { item, refused: GONE.includes(error.code) ? notInTrouble('workflows', of, id) : error }
    }
  }

  return {
    atOnce: 50,
    async operate(call, of, items) {
      // An instance is cancelled once, however many of its steps have failed.
      const asked = call.verb === 'cancel' ? [...new Map(items.map((item) => [item.id, item])).values()] : items
      const work = async (tx: Executor, some: readonly BulkItem[]): Promise<Operated[]> => {
        const operated: Operated[] = []
        for (const item of some) operated.push(await one(tx, call, of, item))
        return operated
      }
      const sorted = asked.toSorted((a, b) => (a.id < b.id ? -1 : 1))
      const { answers } = await operatorCallForMany(db, `${call.verb} ${of.domain}/${of.type}`, sorted, work)
      for (const { applied } of answers) if (applied) events.committed(applied)
      const known = new Map(answers.map((answer) => [keyOf(call, answer.item), answer]))
      return items.map((item) => {
        const answer = known.get(keyOf(call, item))
        return answer ? answer.refused : lockedByOther(`${call.verb} workflow instance ${item.id}`)
      })
    },
  }
}

const keyOf = ({ verb }: BulkCall, { id, step }: BulkItem): string => (verb === 'cancel' ? id : `${id} ${step}`)

function eventOf(call: BulkCall, step: string, codec: Codec): InstanceEvent {
  const { verb, by, compensate } = call
  if (verb === 'cancel') return { type: compensate ? 'cancel' : 'abort', by }
  const answer = answerOf(call, codec)
  return { type: 'requeued', step, by, ...(answer === undefined ? {} : { answer }) }
}

function answerOf({ verb, notDone, result }: BulkCall, codec: Codec): Answer | undefined {
  if (verb === 'skip') return 'skip'
  if (verb === 'complete') return { done: codec.encode(result ?? null, { at: 'result' }) }
  return notDone ? 'notDone' : undefined
}

/** A cancel is for whatever state; here it is for an instance that needs a person, and still does when it is locked. */
async function lockDeadLetter(tx: Executor, of: { domain: string; type: string }, id: string, step: string) {
  await tx.run(lockStatement, [id])
  const [letter] = await tx.run(letterStatement, [id, step])
  if (!letter) throw notInTrouble('workflows', of, id)
}

const lockStatement = {
  name: 'workflows.lock-troubled',
  text: 'select id from holdfast.workflow where id = $1 for no key update',
}
const letterStatement = {
  name: 'workflows.find-dead-letter-of-step',
  text: 'select id from holdfast.workflow_dead_letter where workflow_id = $1 and step = $2',
}
