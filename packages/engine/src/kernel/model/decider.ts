// Changes instances by decisions: reads what is not known, decides purely, writes on the condition that the instance is
// still what was decided on, and otherwise decides again. Workflows and managers are built on it; it knows neither.
// Events of one instance that wait at the same time are decided together, in their order, and share one write; writes of
// many instances share one statement. An event must take effect once, also when the result of its write is lost: such
// a write is repeated as it is until its result is known. It carries a token, by which the SQL function recognises it.

import { createBatcher } from '../batching/batcher.js'
import type { Outcome } from '../batching/flusher.js'
import { roughSize } from '../batching/rough-size.js'
import type { Executor } from '../database/executor.js'
import { newId } from '../ids/id.js'
import type { Runtime } from './runtime.js'

/** Written; decided on a state that has changed since; locked by another transaction. */
export type WriteAnswer = 'done' | 'changed' | 'held'

/** What the SQL functions that apply decisions return for each write. */
export const toWriteAnswer = (code: number | undefined): WriteAnswer =>
  code === 0 ? 'done' : code === 2 ? 'held' : 'changed'

/** What one event came to: each has its own result or its own error. */
export type EventOutcome<Result> = Exclude<Outcome<Result>, 'held'>

/** The events of one instance that are decided together. */
export interface EventGroup<Event> {
  readonly id: string
  readonly events: readonly Event[]
  /** The same for all writes of these events. */
  readonly token: string
}

export interface Decided<Write, Result> {
  /** In the order of the events. They hold once the write is committed. */
  readonly outcomes: readonly EventOutcome<Result>[]
  /** Undefined where nothing changes. */
  readonly write?: Write
}

interface Options<Event, State, Write, Result> extends Pick<Runtime, 'logger' | 'metrics'> {
  /** Of the statement that writes, for logs and metrics. */
  readonly name: string
  /** What is known of an instance without reading it. It may be outdated: the condition of the write notices. */
  readonly known: (group: EventGroup<Event>) => State | undefined
  /** The states by id; instances that do not exist are left out. */
  readonly read: (executor: Executor, groups: readonly EventGroup<Event>[]) => Promise<ReadonlyMap<string, State>>
  readonly decide: (state: State, group: EventGroup<Event>) => Decided<Write, Result> | Promise<Decided<Write, Result>>
  /** One statement for many instances, which come in the order of their ids. */
  readonly write: (executor: Executor, writes: readonly Write[]) => Promise<readonly WriteAnswer[]>
  /** Called for each write that the decider has committed; not for those in a transaction of the caller. */
  readonly written: (write: Write) => void
  /** What an event comes to whose instance does not exist. */
  readonly missing: (id: string) => EventOutcome<Result>
}

/** When other workers have changed an instance first so often in a row, it is left alone for a moment. */
const ROUNDS = 10
/** More is not decided together: a statement has a limit in bytes. */
const MOST_BYTES = 1024 * 1024

interface Group<Event, Write, Result> extends EventGroup<Event> {
  readonly events: Event[]
  bytes: number
  /** What is known without reading was not enough. */
  outdated: boolean
  /** Kept until it is certain that it was not written. */
  decided?: Decided<Write, Result> | undefined
}

export function createDecider<Event, State, Write, Result>(
  db: Executor,
  { name, known, read, decide, write, written, missing, logger, metrics }: Options<Event, State, Write, Result>,
) {
  type Grouped = Group<Event, Write, Result>
  type Outcomes = readonly EventOutcome<Result>[]
  /** Groups that take more events, each with its end: they wait for their flush. */
  const open = new Map<string, { readonly group: Grouped; readonly settled: Promise<Outcomes> }>()
  const key = ({ id }: Grouped) => id
  const size = ({ bytes }: Grouped) => bytes
  const batcher = createBatcher<Grouped, Outcomes>({ name, key, size, flush, logger, metrics })

  async function flush(groups: readonly Grouped[]): Promise<readonly Outcome<Outcomes>[]> {
    groups.forEach(close)
    const outcomes = new Map<Grouped, Outcome<Outcomes>>()
    let left = groups
    for (let round = 0; left.length > 0 && round < ROUNDS; round += 1) {
      await decideAll(db, left)
      const answers = await writeAll(db, left)
      left = left.filter((group, place) => {
        const { decided } = group
        if (answers[place] === 'done' && decided) {
          outcomes.set(group, { done: decided.outcomes })
          if (decided.write !== undefined) written(decided.write)
        }
        if (answers[place] !== 'changed') return false
        group.decided = undefined
        group.outdated = true
        return true
      })
    }
    return groups.map((group) => outcomes.get(group) ?? 'held')
  }

  /** Decides what is not decided yet. */
  async function decideAll(executor: Executor, groups: readonly Grouped[]): Promise<void> {
    await Promise.all(groups.map(decideOnKnown))
    const undecided = groups.filter(({ decided }) => decided === undefined)
    if (undecided.length === 0) return
    const states = await read(executor, undecided)
    const decideOnRead = async (group: Grouped) => {
      const state = states.get(group.id)
      const notThere = () => ({ outcomes: group.events.map(() => missing(group.id)) })
      group.decided = state === undefined ? notThere() : await decide(state, group)
    }
    await Promise.all(undecided.map(decideOnRead))
  }

  async function decideOnKnown(group: Grouped): Promise<void> {
    const state = group.decided || group.outdated ? undefined : known(group)
    if (state === undefined) return
    const decided = await decide(state, group)
    // Where nothing is written, or an event is refused, no condition of a write would show that the state was outdated.
    if (decided.write !== undefined && decided.outcomes.every((outcome) => 'done' in outcome)) group.decided = decided
  }

  /** Groups that have nothing to write are done. */
  async function writeAll(executor: Executor, groups: readonly Grouped[]): Promise<WriteAnswer[]> {
    const writes = groups.flatMap(({ decided }) => (decided?.write === undefined ? [] : [decided.write]))
    const answers = writes.length === 0 ? [] : [...(await write(executor, writes))]
    return groups.map(({ decided }) => (decided?.write === undefined ? 'done' : (answers.shift() ?? 'held')))
  }

  const toGroup = (id: string, event: Event, bytes: number, outdated: boolean): Grouped => ({
    id,
    token: newId(),
    events: [event],
    bytes,
    outdated,
  })

  function begin(group: Grouped): Promise<Outcomes> {
    const settled = batcher.write(group).finally(() => close(group))
    open.set(group.id, { group, settled })
    return settled
  }

  function close(group: Grouped): void {
    if (open.get(group.id)?.group === group) open.delete(group.id)
  }

  return {
    /** Resolves when the decision about the event is committed. */
    async apply(id: string, event: Event): Promise<Result> {
      const bytes = roughSize(event)
      const waiting = open.get(id)
      if (waiting === undefined || waiting.group.bytes + bytes > MOST_BYTES) {
        return resultOf((await begin(toGroup(id, event, bytes, false)))[0])
      }
      waiting.group.bytes += bytes
      const place = waiting.group.events.push(event) - 1
      return resultOf((await waiting.settled)[place])
    },
    /**
     * Decides and writes once, inside a transaction in which the instance is locked. Undefined where nothing was written, because
     * another transaction has a part of the instance.
     */
    async applyWithin(executor: Executor, id: string, event: Event): Promise<Result | undefined> {
      const group = toGroup(id, event, 0, true)
      await decideAll(executor, [group])
      const [answer] = await writeAll(executor, [group])
      return answer === 'done' ? resultOf(group.decided?.outcomes[0]) : undefined
    },
    close: (timeout?: number) => batcher.close(timeout),
  }
}

function resultOf<Result>(outcome: EventOutcome<Result> | undefined): Result {
  if (outcome === undefined) throw new Error('a decision has no outcome for one of its events')
  if ('failed' in outcome) throw outcome.failed
  return outcome.done
}
