import type { By } from '../audit/audit.js'
import type { Database } from '../database/database.js'
import type { Executor, Statement } from '../database/executor.js'
import { type LockBudget, lockedByOther, operatorCallForMany } from '../database/operator-call.js'
import { type ErrorCode, HoldfastError } from '../errors.js'
import type { Model } from './handle.js'

/** The result for one of many: a list of these is what every call on many pieces of work returns. */
export interface BulkResult {
  /** Not there if no model has work with this id that needs a person. */
  readonly model?: Model
  readonly domain?: string
  readonly type?: string
  readonly id: string
  /** Of a workflow or a process: where it failed. */
  readonly step?: string
  /** Of work that needs a person: the failure that the call was about. Pass the result to `hf.trouble` to repeat the call for it. */
  readonly failureId?: string
  readonly outcome: 'done' | 'refused'
  /** Why it was refused. */
  readonly code?: ErrorCode
  readonly message?: string
}

/** What an operator can do with work that needs a person. */
export type TroubleVerb = 'retry' | 'complete' | 'cancel' | 'skip'

/** What an operator asked for, checked, in the words of all models. */
export interface BulkCall {
  readonly verb: TroubleVerb
  readonly by: By
  /** Of a retry: a person found out that calls of unknown outcome were not done. */
  readonly notDone: boolean
  /** Of a cancel: whether what was done is undone. */
  readonly compensate: boolean
  /** Of a complete; undefined: none was given. */
  readonly result: unknown
}

export interface BulkItem {
  readonly id: string
  /** Which of the failed steps, in models where work can have several. */
  readonly step: string | null
  /** The fence: the failure that the operator means, in microseconds since 1970. */
  readonly failureId: string
}

/** The definition of the work that one part of a call is about. */
export interface BulkDefinition {
  readonly domain: string
  readonly type: string
}

/**
 * How a model acts on many pieces of its work that need a person. `hf.trouble` selects them, groups them by definition and cuts them
 * into parts; a model does each part in one operator call. Work that is no longer in the trouble that was selected is left alone.
 */
export interface BulkOperator {
  /** The most that one transaction does well within the time of an operator's call. */
  readonly atOnce: number
  /** One refusal per item, in their order; undefined where it was done. Throws what is true of all of them. */
  operate(
    call: BulkCall,
    of: BulkDefinition,
    items: readonly BulkItem[],
    budget: LockBudget,
  ): Promise<readonly (HoldfastError | undefined)[]>
}

/** What became of one item; `committed` is called after the commit. */
export interface BulkOutcome {
  readonly refused?: HoldfastError | undefined
  readonly committed?: () => void
}

export interface BulkModel {
  readonly model: Model
  readonly atOnce: number
  /**
   * How the work of `asked` (id, failure, step) is found and locked. `from` joins the rows, with the definition's name as `$1`; the
   * locked tables, `of`, must have the row that every failure replaces, so that no other transaction ends or renews the trouble.
   */
  readonly troubles: { readonly from: string; readonly since: string; readonly of: string }
  /** Checks what is true of all items. Returns what acts on those that are locked, one outcome each, in their order. */
  readonly prepare: (
    call: BulkCall,
    of: BulkDefinition,
  ) => Promise<(tx: Executor, items: readonly BulkItem[]) => Promise<readonly BulkOutcome[]>>
}

interface Answer extends BulkOutcome {
  readonly item: BulkItem
}

/**
 * What operators do with many: the part of `hf.trouble` that is about one model. An operator's word is about one failure. So each item
 * is locked first and compared with the failure that was selected; a later failure of the same work is not acted on.
 */
export function createBulk(db: Database, { model, atOnce, troubles, prepare }: BulkModel): BulkOperator {
  const { find, lock, lockFree } = statementsOf(model, troubles)
  return {
    atOnce,
    async operate(call, of, items, budget) {
      const act = await prepare(call, of)
      const name = `${of.domain}/${of.type}`
      const work = async (tx: Executor, some: readonly BulkItem[], locked: 'wait' | 'skip'): Promise<Answer[]> => {
        const held = await itemsOf(tx, locked === 'wait' ? lock : lockFree, name, some)
        const others = some.filter((item) => !held.includes(item))
        const busy = locked === 'wait' || others.length === 0 ? [] : await itemsOf(tx, find, name, others)
        const outcomes = held.length === 0 ? [] : await act(tx, held)
        return [
          ...held.map((item, place) => ({ item, ...outcomes[place] })),
          ...others
            .filter((item) => !busy.includes(item))
            .map((item) => ({ item, refused: notInTrouble(model, of, item.id) })),
        ]
      }
      const operation = `${call.verb} ${model} of ${name}`
      const { answers, refused } = await operatorCallForMany(db, operation, items, work, budget)
      for (const { committed } of answers) committed?.()
      const known = new Map(answers.map((answer) => [answer.item, answer]))
      return items.map((item) => {
        const answer = known.get(item)
        return answer ? answer.refused : (refused.get(item) ?? lockedByOther(`${call.verb} ${name} ${item.id}`))
      })
    },
  }
}

async function itemsOf(tx: Executor, statement: Statement, name: string, items: readonly BulkItem[]) {
  const rows = await tx.run<{ place: number }>(statement, [
    name,
    items.map(({ id }) => id),
    items.map(({ failureId }) => failureId),
    items.map(({ step }) => step),
  ])
  return rows.flatMap(({ place }) => items[place - 1] ?? [])
}

/** In the order of ids, in which every statement of ours locks. */
function statementsOf(model: Model, { from, since, of }: BulkModel['troubles']) {
  const text = `
    select asked.place::int as place
    from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::int8[]), pg_catalog.unnest($4::text[]))
      with ordinality as asked (id, failure, step, place)
    ${from}
    where (extract(epoch from ${since}) * 1000000::numeric)::int8 = asked.failure
    order by asked.id, asked.step`
  const locking = `${text}
    for no key update of ${of}`
  return {
    find: { name: `${model}.find-troubled`, text },
    lock: { name: `${model}.lock-troubled`, text: locking },
    lockFree: { name: `${model}.lock-free-troubled`, text: `${locking} skip locked` },
  }
}

/** Another operator was faster, the work went on by itself, or it has failed again. */
export function notInTrouble(
  model: Model,
  { domain, type }: BulkDefinition,
  id: string,
): HoldfastError<'HF_NOT_IN_TROUBLE'> {
  return new HoldfastError('HF_NOT_IN_TROUBLE', { model, domain, type, id })
}
