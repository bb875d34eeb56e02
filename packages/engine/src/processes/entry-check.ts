import { classifyFailure } from '../kernel/failure/classify.js'
import { newId } from '../kernel/ids/id.js'
import { parseWith } from '../kernel/validation/schema.js'
import { deadlineOf } from './encode-start.js'
import { executionClock } from './execution/clock.js'
import { toRecorded } from './execution/decisions.js'
import type { ExecutionParts } from './execution/parts.js'
import type { DefinedManager } from './managers/define.js'
import type { ClaimedProcess } from './queries/claim-processes.js'
import { storeCheckedState } from './queries/store-checked-state.js'
import type { Suspension } from './queries/write-processes.js'

type EntryParts = Pick<ExecutionParts, 'db' | 'codec' | 'writes'> & {
  readonly definition: Pick<ExecutionParts['definition'] | DefinedManager, 'name' | 'stateSchema' | 'deadline'>
}

/**
 * A process that was started through SQL has a state that is not checked yet. It is parsed here, once, and kept
 * before any code of the definition sees it. One that does not fit stays as it came, and the process goes to troubleshooting;
 * cancelled already, it is over.
 */
export async function checkEntry(
  item: ClaimedProcess,
  parts: EntryParts,
): Promise<{ readonly item: ClaimedProcess } | { readonly suspension: Suspension }> {
  if (item.stateChecked) return { item }
  const { db, codec, definition } = parts
  const where = `start ${definition.name}`
  let encoded: ReturnType<typeof codec.encode>
  let deadline: ReturnType<typeof deadlineOf>
  try {
    // What comes through SQL is plain; with notes it is encoded, by an earlier version of a dispatched item's definition.
    const given = item.stateNotes === null ? item.state : codec.decode({ json: item.state, notes: item.stateNotes })
    const state = await parseWith(definition.stateSchema, given, where)
    encoded = codec.encode(state, { at: 'state' })
    deadline = deadlineOf(where, definition.deadline?.(state))
  } catch (error) {
    const failure = toRecorded(classifyFailure(error, { unknown: 'permanent' }))
    return { suspension: await suspendWithoutReplay(item, parts, { ...failure, kind: 'PERMANENT' }) }
  }
  const kept = await storeCheckedState(db, item, encoded, deadline)
  const state = JSON.parse(encoded.json) as unknown
  return { item: { ...item, state, stateNotes: encoded.notes, stateChecked: true, deadline: kept } }
}

/**
 * Into troubleshooting without an execution: what is stored cannot be read, or the database refuses what was to be written. Written
 * as an execution would; it receives responses and cancellations that come meanwhile, and tries again. One that was cancelled
 * ends, unless something has to be undone first, which needs a person then. `restedEpoch`: what the next claim takes for the
 * last suspension in order.
 */
export async function suspendWithoutReplay(
  item: ClaimedProcess,
  { writes }: Pick<ExecutionParts, 'writes'>,
  error: NonNullable<Suspension['error']>,
  restedEpoch?: number,
): Promise<Suspension> {
  const { id, epoch, generation } = item
  let received = item.responses.at(-1)?.number ?? item.stateResponses
  let { cancel } = item
  for (;;) {
    const ends = cancel === 'PLAIN' || (cancel !== null && restedEpoch === undefined)
    const suspension: Suspension = {
      ...(ends ? { status: 'CANCELLED', ended: true } : { status: 'WAITING_FOR_TSQ', ended: false, error }),
      dueAt: null,
      received,
      receivedCancel: cancel !== null,
      seen: item.stateResponses,
      state: undefined,
      ...(restedEpoch === undefined ? {} : { restedEpoch }),
      ...(item.limited ? { limited: true } : {}),
    }
    const news = await writes.write({
      id,
      epoch,
      generation,
      token: newId(),
      events: [],
      suspension,
      by: { item, now: executionClock(item.now) },
    })
    if (!news) return suspension
    received = news.responses.at(-1)?.number ?? received
    cancel = news.cancel ?? cancel
  }
}
