// What operators do with many dead letters at once: the workflows' part of `hf.trouble`. Each is decided by itself, in one transaction
// with others; one that is refused must leave the others as they are.

import type { Codec } from '../kernel/codec/codec.js'
import { type ErrorCode, HoldfastError } from '../kernel/errors.js'
import {
  type BulkCall,
  type BulkDefinition,
  type BulkItem,
  type BulkOperator,
  type BulkOutcome,
  createBulk,
  type Database,
  type Executor,
  notInTrouble,
} from '../kernel/model/index.js'
import type { Answer, InstanceEvent } from './decide/instance-event.js'
import type { WorkflowEngine } from './engine.js'

/** Another operator has acted, or the instance has continued by itself. */
const GONE: readonly ErrorCode[] = ['HF_WRONG_STATUS', 'HF_NOT_FOUND']

/** What operators do with many dead letters: the part of `hf.trouble` that is about workflows. */
export function createWorkflowBulk(db: Database, { codec, events }: WorkflowEngine): BulkOperator {
  /** One that is refused leaves the others alone: what refuses it is decided before anything is written. */
  async function one(tx: Executor, call: BulkCall, of: BulkDefinition, { id, step }: BulkItem): Promise<BulkOutcome> {
    try {
      if (step === null) throw notInTrouble('workflows', of, id)
      const applied = await events.operateWithin(tx, { id, event: eventOf(call, step, codec) })
      return { committed: () => events.committed(applied) }
    } catch (error) {
      if (!(error instanceof HoldfastError) || (error.status >= 500 && error.code !== 'HF_NOT_DECODABLE')) throw error
      return { refused: GONE.includes(error.code) ? notInTrouble('workflows', of, id) : error }
    }
  }

  return createBulk(db, {
    model: 'workflows',
    atOnce: 50,
    troubles: {
      from: `
    join holdfast.workflow on workflow.id = asked.id::uuid
    join holdfast.workflow_dead_letter as letter
      on letter.workflow_id = asked.id::uuid
      and letter.step = asked.step
      and case when pg_catalog.strpos(letter.workflow_name, '/') = 0 then 'default/' else '' end || letter.workflow_name = $1`,
      since: 'letter.created_at',
      of: 'workflow, letter',
    },
    prepare: async (call, of) => async (tx, items) => {
      // An instance is cancelled once, however many of its steps have failed.
      const cancelled = new Map<string, BulkOutcome>()
      const outcomes: BulkOutcome[] = []
      for (const item of items) {
        const before = cancelled.get(item.id)
        const outcome = before ? { refused: before.refused } : await one(tx, call, of, item)
        if (call.verb === 'cancel') cancelled.set(item.id, outcome)
        outcomes.push(outcome)
      }
      return outcomes
    },
  })
}

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
