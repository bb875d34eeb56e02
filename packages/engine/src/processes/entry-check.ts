import { classifyFailure } from '../kernel/failure/classify.js'
import { newId } from '../kernel/ids/id.js'
import { parseWith } from '../kernel/validation/schema.js'
import { executionClock } from './execution/clock.js'
import { toRecorded } from './execution/decisions.js'
import type { ExecutionParts } from './execution/parts.js'
import type { ClaimedProcess } from './queries/claim-processes.js'
import { storeCheckedState } from './queries/store-checked-state.js'
import type { Rest } from './queries/write-processes.js'
import { deadlineOf } from './seal-start.js'

/**
 * A process that was started through SQL comes with a state that nobody has checked. It is parsed here, once, and kept
 * before any code of the definition sees it (K-10). One that does not fit stays as it came and rests in troubleshooting;
 * cancelled already, it is over.
 */
export async function checkEntry(
  item: ClaimedProcess,
  parts: ExecutionParts,
): Promise<{ readonly item: ClaimedProcess } | { readonly rest: Rest }> {
  if (item.stateChecked) return { item }
  const { db, codec, definition } = parts
  const where = `start ${definition.name}`
  let sealed: ReturnType<typeof codec.encode>
  let deadline: ReturnType<typeof deadlineOf>
  try {
    // What comes through SQL is plain; with notes it is encoded, by an earlier version of a dispatched item's definition.
    const given = item.stateNotes === null ? item.state : codec.decode({ json: item.state, notes: item.stateNotes })
    const state = await parseWith(definition.stateSchema, given, where)
    sealed = codec.encode(state, { at: 'state' })
    deadline = deadlineOf(where, definition.deadline?.(state))
  } catch (error) {
    const failure = toRecorded(classifyFailure(error, { unknown: 'permanent' }))
    return { rest: await restApart(item, parts, { ...failure, kind: 'PERMANENT' }) }
  }
  const kept = await storeCheckedState(db, item, sealed, deadline)
  const state = JSON.parse(sealed.json) as unknown
  return { item: { ...item, state, stateNotes: sealed.notes, stateChecked: true, deadline: kept } }
}

/**
 * Into troubleshooting without an execution: what is stored cannot be read, or the database refuses what was to be written (K-26). Written
 * as an execution would; responses and cancellations that come meanwhile are heard, and it is tried again. One that was cancelled
 * ends, unless something has to be undone first, which needs a person then. `restedEpoch`: what the next claim takes for the
 * last rest in order.
 */
export async function restApart(
  item: ClaimedProcess,
  { writes }: Pick<ExecutionParts, 'writes'>,
  error: NonNullable<Rest['error']>,
  restedEpoch?: number,
): Promise<Rest> {
  const { id, epoch, generation } = item
  let heard = item.responses.at(-1)?.number ?? item.stateResponses
  let { cancel } = item
  for (;;) {
    const ends = cancel === 'PLAIN' || (cancel !== null && restedEpoch === undefined)
    const rest: Rest = {
      ...(ends ? { status: 'CANCELLED', ended: true } : { status: 'WAITING_FOR_TSQ', ended: false, error }),
      dueAt: null,
      heard,
      heardCancel: cancel !== null,
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
      rest,
      by: { item, now: executionClock(item.now) },
    })
    if (!news) return rest
    heard = news.responses.at(-1)?.number ?? heard
    cancel = news.cancel ?? cancel
  }
}
