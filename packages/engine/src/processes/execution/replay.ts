// Replays the recorded history: applies each record in its order, and lets user code run until it waits after each.
// `executor.ts` calls it once, before it drives the process forward. A record that the code does not reach is a
// mismatch, and a record that cannot be read is `ReplayFailed`; neither may change anything.

import type { HistoryRecord } from '../history.js'
import { readHistory } from '../queries/read-record.js'
import { apply } from './apply.js'
import type { Execution } from './execution.js'
import { replaying } from './mismatch.js'

/** Code that depends on which call finished first takes the same path as it did when the records were written. */
export async function replay(execution: Execution): Promise<void> {
  const { item, parts } = execution
  await replaying(() => replayPage(execution, item.history))
  // Reading is no replay: a database that is down is not the fault of the record.
  for await (const page of readHistory(parts.db, item)) await replaying(() => replayPage(execution, page))
}

async function replayPage(execution: Execution, records: readonly HistoryRecord[]): Promise<void> {
  for (const record of records) {
    await execution.perform(apply(execution.state, record))
    execution.journal.replayed(record)
  }
}
