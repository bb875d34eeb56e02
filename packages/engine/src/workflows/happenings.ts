// Changes workflow instances: decides each event on the known state, writes the decision on the condition that the
// state has not changed, and otherwise decides again. Workers, operators and the client report events here; nothing
// else writes instances. Events of one instance are decided in the order in which they were reported. An event must
// take effect once, also when the result of its write was lost.

import { setTimeout as sleep } from 'node:timers/promises'
import { type Batcher, createBatcher } from '../kernel/batching/batcher.js'
import type { Outcome } from '../kernel/batching/flusher.js'
import type { Executor } from '../kernel/database/executor.js'
import { HoldfastError } from '../kernel/errors.js'
import { newId } from '../kernel/ids/id.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { decide } from './decide/decide.js'
import type { Decision } from './decide/decision.js'
import type { InstanceEvent } from './decide/instance-event.js'
import type { Payloads } from './decide/payloads.js'
import type { InstanceState } from './decide/state.js'
import type { WorkflowDefinition } from './definition/definition.js'
import type { Definitions } from './definitions.js'
import { instanceNotFound } from './not-found.js'
import { loadInstances } from './queries/load-instances.js'
import { type WriteAnswer, writeInstances } from './queries/write-instances.js'
import { addDecision, type Change, changeDocument, isEmpty, noChange } from './store/document.js'
import { createKeptInstances } from './store/kept-instances.js'
import { afterWrite, type StepClaim, type StoredInstance, withClaim, withDecision } from './store/stored-instance.js'

/** Something that happened to an instance, and the claim of whoever reports it. */
interface Happening {
  readonly id: string
  readonly occurrence: InstanceEvent
  readonly claim?: StepClaim
}

/** What was decided and is committed. */
export interface Happened {
  readonly definition: WorkflowDefinition
  readonly decision: Decision
  readonly state: InstanceState
  /** When the instance was made, by this program's `performance.now()`. */
  readonly madeAt: number
}

/**
 * The one way in which instances change: what happens is decided on the state that is known, and written on the condition
 * that it still is the state; otherwise it is decided again. Many happenings share a statement, those of one instance a
 * document.
 */
export interface Happenings {
  /** Resolves when the decision is committed. */
  report(happening: Happening): Promise<Happened>
  /** Decides and writes inside a transaction, on a state that it locks; the transaction must be given up if this throws. */
  reportWithin(tx: Executor, happening: Happening): Promise<Happened>
  /**
   * The same for what a person asks for: waits for whoever has the instance, and may decide that nothing changes. The caller
   * tells of it with `committed` when its transaction has committed.
   */
  operateWithin(tx: Executor, happening: Happening): Promise<Happened>
  committed(happened: Happened): void
  /** An instance that was just started here. */
  remember(stored: StoredInstance): void
  close(timeout?: number): Promise<void>
}

interface Options {
  readonly definitions: Definitions
  readonly payloads: Payloads
  /** Told of everything that is committed. */
  readonly happened: (happened: Happened) => void
  readonly logger: Logger
  readonly metrics: Metrics
}

/** Each time somebody else has changed an instance first, who has gone on: more rounds than this are not waited for here. */
const ROUNDS = 10

/** On its way: the token tells its write from others when the answer is lost. */
interface Reported extends Happening {
  readonly key: string
  readonly token: string
}

interface Group {
  readonly id: string
  readonly places: readonly number[]
}

interface Known {
  readonly stored: StoredInstance
  /** From memory: somebody else may have changed it since. */
  readonly kept: boolean
}

interface Decided {
  readonly group: Group
  readonly token: string
  readonly before: StoredInstance
  readonly after: StoredInstance
  readonly change: Change
}

export function createHappenings(db: Executor, options: Options): Happenings {
  const { definitions, payloads, logger, metrics } = options
  const states = createKeptInstances()
  /** What was decided for each when it was last tried. */
  const tried = new WeakMap<object, Outcome<Happened>>()
  let count = 0

  const batcher: Batcher<Reported, Happened> = createBatcher<Reported, Happened>({
    name: 'workflows.write',
    key: ({ key }) => key,
    flush,
    logger,
    metrics,
  })

  async function flush(happenings: readonly Reported[]): Promise<readonly Outcome<Happened>[]> {
    const outcomes: Outcome<Happened>[] = happenings.map(() => 'held')
    let groups = groupsOf(happenings)
    for (let round = 0; groups.length > 0 && round < ROUNDS; round += 1) {
      const known = await statesOf(groups, happenings)
      const decided: Decided[] = []
      const again: Group[] = []
      for (const group of groups) {
        const decision = decideGroup(group, known.get(group.id), happenings, outcomes)
        if (decision === 'look again') again.push(group)
        else if (decision) decided.push(decision)
      }
      const answers = decided.length === 0 ? [] : await writeInstances(db, decided.map(documentOf))
      groups = [...again, ...decided.flatMap((one, place) => settle(one, answers[place] ?? 'held', outcomes))]
    }
    for (const { places } of groups) for (const place of places) outcomes[place] = 'held'
    for (const outcome of outcomes) if (outcome !== 'held' && 'done' in outcome) options.happened(outcome.done)
    return outcomes
  }

  async function statesOf(groups: readonly Group[], happenings: readonly Reported[]): Promise<Map<string, Known>> {
    const known = new Map<string, Known>()
    const missing: string[] = []
    for (const { id, places } of groups) {
      const stored = states.get(id)
      if (stored && places.every((place) => knowsCall(stored, happenings[place]?.claim))) {
        known.set(id, { stored, kept: true })
      } else missing.push(id)
    }
    if (missing.length === 0) return known
    const loaded = await loadInstances(db, (id) => definitions.byId(id), missing)
    for (const [id, stored] of loaded) known.set(id, { stored, kept: false })
    return known
  }

  const documentOf = ({ before, change, token }: Decided) => changeDocument(before, change, token)

  /** Decides all that happened to one instance, one after the other; what is refused leaves the rest alone. */
  function decideGroup(
    group: Group,
    known: Known | undefined,
    happenings: readonly Reported[],
    outcomes: Outcome<Happened>[],
  ): Decided | 'look again' | undefined {
    const { id, places } = group
    if (!known) {
      for (const place of places) outcomes[place] = { failed: instanceNotFound(id) }
      return undefined
    }
    const { stored } = known
    const token = happenings[places[0] ?? 0]?.token ?? newId()
    // Committed by an earlier try of this flush, whose answer was lost: what it decided stands.
    if (stored.lastWrite === token) {
      for (const place of places) outcomes[place] = tried.get(happenings[place] ?? {}) ?? 'held'
      return undefined
    }
    const { definition } = stored
    const change = noChange()
    const { before, lost } = withClaims(stored, places, happenings)
    let after = before
    let refused = false
    for (const place of places) {
      const happening = happenings[place]
      if (happening === undefined) continue
      const outcome = lost.get(place) ?? attempt(happening)
      outcomes[place] = outcome
      tried.set(happening, outcome)
      refused ||= outcome !== 'held' && 'failed' in outcome
    }
    // A write says on which state it was decided. Where nothing is written, nobody would notice that the state was outdated.
    if (known.kept && (refused || isEmpty(change))) {
      states.forget(id)
      return 'look again'
    }
    return isEmpty(change) ? undefined : { group, token, before, after, change }

    function attempt({ occurrence }: Reported): Outcome<Happened> {
      try {
        const decision = decide(definition, after.state, occurrence, { payloads })
        addDecision(change, decision)
        after = withDecision(after, decision)
        return { done: { definition, decision, state: after.state, madeAt: after.madeAt } }
      } catch (error) {
        return { failed: error instanceof Error ? error : new Error(String(error)) }
      }
    }
  }

  /** Answers the group again where it has to be decided again. */
  function settle(
    { group, token, before, after }: Decided,
    answer: WriteAnswer,
    outcomes: Outcome<Happened>[],
  ): Group[] {
    if (answer === 'done') {
      states.set(afterWrite(before, after, token))
      return []
    }
    states.forget(group.id)
    if (answer === 'changed') return [group]
    for (const place of group.places) {
      outcomes[place] = answer === 'held' ? 'held' : { failed: instanceNotFound(group.id) }
    }
    return []
  }

  async function decideWithin(
    tx: Executor,
    { id, occurrence, claim }: Happening,
    mayChangeNothing = false,
  ): Promise<Happened | undefined> {
    const loaded = await loadInstances(tx, (definition) => definitions.byId(definition), [id])
    const stored = loaded.get(id)
    if (!stored) throw instanceNotFound(id)
    const { definition, madeAt } = stored
    const before = claim ? withClaim(stored, claim) : stored
    const decision = decide(definition, before.state, occurrence, { payloads })
    const change = noChange()
    addDecision(change, decision)
    const { state } = withDecision(before, decision)
    if (isEmpty(change) && mayChangeNothing) return { definition, decision, state, madeAt }
    // Its end was decided without it: what the transaction wrote must not stay.
    if (isEmpty(change)) throw new HoldfastError('HF_LEASE_LOST', { id, epoch: String(claim?.epoch ?? '') })
    const [answer] = await writeInstances(tx, [changeDocument(before, change, newId())])
    return answer === 'done' ? { definition, decision, state, madeAt } : undefined
  }

  return {
    report(happening) {
      // Padded: the keys are sorted as texts, and what was reported first is decided first.
      count += 1
      return batcher.write({ ...happening, token: newId(), key: `${happening.id} ${String(count).padStart(12, '0')}` })
    },
    async reportWithin(tx, happening) {
      states.forget(happening.id)
      await tx.run(lockStatement, [happening.id])
      // A claim or a heartbeat may have a step for a moment that the decision changes.
      for (let round = 0; round < ROUNDS; round += 1) {
        const happened = await decideWithin(tx, happening)
        if (happened) return happened
        await sleep(10)
      }
      throw new HoldfastError('HF_INSTANCE_HELD', { id: happening.id })
    },
    async operateWithin(tx, happening) {
      states.forget(happening.id)
      await tx.run(lockStatement, [happening.id])
      await tx.run(lockStepsStatement, [happening.id])
      const happened = await decideWithin(tx, happening, true)
      if (happened) return happened
      throw new HoldfastError('HF_INSTANCE_HELD', { id: happening.id })
    },
    committed: (happened) => options.happened(happened),
    remember: (stored) => states.set(stored),
    close: (timeout) => batcher.close(timeout),
  }
}

/**
 * Whether a state that is kept has the call in it that a claim is about. A claim that begins a call says all of it; one that
 * takes over somebody else's does not, and a kept state knows nothing of calls that others have begun.
 */
const knowsCall = ({ epochs }: StoredInstance, claim: StepClaim | undefined): boolean =>
  claim === undefined || claim.fresh || epochs.get(claim.step) === claim.epoch

/**
 * The state with all claims in it that are reported on, before anything is decided: the first decision must not take a step
 * for one that nobody has which the second is about. Also those whose lease is lost.
 */
function withClaims(stored: StoredInstance, places: readonly number[], happenings: readonly Reported[]) {
  const lost = new Map<number, { readonly failed: Error }>()
  let before = stored
  for (const place of places) {
    const claim = happenings[place]?.claim
    if (!claim) continue
    try {
      before = withClaim(before, claim)
    } catch (error) {
      lost.set(place, { failed: error instanceof Error ? error : new Error(String(error)) })
    }
  }
  return { before, lost }
}

function groupsOf(happenings: readonly Happening[]): Group[] {
  const groups = new Map<string, number[]>()
  happenings.forEach(({ id }, place) => {
    const places = groups.get(id)
    if (places) places.push(place)
    else groups.set(id, [place])
  })
  // In the order of ids, in which they are locked.
  return [...groups].map(([id, places]) => ({ id, places })).toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

const lockStatement = {
  name: 'workflows.lock',
  text: 'select revision from holdfast.workflow where id = $1 for no key update',
}
// Only waits: which step a decision changes is not known before it is made.
const lockStepsStatement = {
  name: 'workflows.lock-steps',
  text: `
    select number
    from holdfast.workflow_step
    where workflow_id = $1 and number >= 0
    order by number
    for no key update`,
}
