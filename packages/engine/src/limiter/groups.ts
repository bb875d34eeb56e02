import type { Outcome } from '../kernel/batching/flusher.js'
import type { Executor } from '../kernel/database/executor.js'
import { isTransient } from '../kernel/database/transient.js'
import { type RunAnswer, reserveSlots } from './queries/reserve-slots.js'
import { type Asking, dealSlots, type Run, runsOf, type Slots } from './runs.js'

/** Somebody who waits for the answer. */
export interface Asker extends Asking {
  /** Does not want it any more: nothing is reserved for it, if that is not too late. */
  isGone: boolean
  readonly resolve: (slots: Slots | 'unknown') => void
  readonly reject: (error: unknown) => void
}

/** All who ask for slots of one key at about the same moment: one write of the group commit. */
export interface Group {
  readonly key: string
  readonly askers: Asker[]
  /** It has gone out: who comes now makes the next one. */
  isSealed: boolean
  /** Somebody else has its bucket locked: from now on that is waited for, apart from the other groups. */
  isHeld: boolean
}

export type Dealt = readonly { readonly asker: Asker; readonly slots: Slots | 'unknown' }[]

/**
 * Reserves for the groups in one statement. It waits for nobody's lock while it holds others, so a group whose bucket is
 * locked is held; those come back here by themselves and have a statement each, which waits a little.
 */
export async function flushGroups(db: Executor, groups: readonly Group[]): Promise<readonly Outcome<Dealt>[]> {
  if (groups.length === 1) return reserve(db, groups, true)
  if (!groups.every(({ isHeld }) => isHeld)) return reserve(db, groups, false)
  const answers = await Promise.all(groups.map((group) => reserveApart(db, group)))
  return answers.flat()
}

/** Trouble of one group must not have the others repeated, which would waste what they have got. */
async function reserveApart(db: Executor, group: Group): Promise<readonly Outcome<Dealt>[]> {
  try {
    return await reserve(db, [group], true)
  } catch (error) {
    if (!isTransient(error)) throw error
    return ['held']
  }
}

async function reserve(db: Executor, groups: readonly Group[], patient: boolean): Promise<readonly Outcome<Dealt>[]> {
  const now = performance.now()
  const requests = groups.map((group) => {
    group.isSealed = true
    const here = group.askers.filter(({ isGone }) => !isGone)
    return { group, runs: runsOf(here, now) }
  })
  const all = requests.flatMap(({ group: { key }, runs }) => runs.map((run) => ({ key, run })))
  const answers = all.length === 0 ? [] : await reserveSlots(db, all, patient)
  let place = 0
  return requests.map(({ group, runs }) => {
    const own = answers.slice(place, place + runs.length)
    place += runs.length
    group.isHeld = own.some(({ outcome }) => outcome === 'held')
    return group.isHeld ? 'held' : { done: own.flatMap((answer, nth) => deal(runs[nth], answer)) }
  })
}

function deal(run: Run<Asker> | undefined, answer: RunAnswer): Dealt {
  if (run === undefined) return []
  if (answer.outcome !== 'reserved') return run.askers.map((asker) => ({ asker, slots: 'unknown' }))
  return dealSlots(run, answer)
}
