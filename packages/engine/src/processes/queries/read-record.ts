import type { Executor } from '../../kernel/model/index.js'
import {
  type HistoryRecord,
  type HistoryRow,
  type RecordedResponse,
  type ResponseRow,
  toHistoryRecord,
  toResponse,
} from '../history.js'
import type { ClaimedProcess } from './claim-processes.js'

/** About how many bytes are read at once of what did not fit into the claim. */
const PAGE = 1_048_576

/** The records after the ones that came with the claim, page by page: each page can be forgotten before the next is read. */
export async function* readHistory(db: Executor, item: ClaimedProcess): AsyncGenerator<readonly HistoryRecord[]> {
  let last = item.history.at(-1)?.seq ?? 0
  while (last < (item.historyLength ?? 0)) {
    const [row] = await db.run<{ page: HistoryRow[] | null }>(historyStatement, [item.id, item.generation, last, PAGE])
    const page = (row?.page ?? []).map(toHistoryRecord)
    const end = page.at(-1)?.seq
    if (end === undefined) return
    yield page
    last = end
  }
}

/** The process with all its responses; those that did not fit into the claim are read here. */
export async function withAllResponses(db: Executor, item: ClaimedProcess): Promise<ClaimedProcess> {
  const responses: RecordedResponse[] = [...item.responses]
  for (;;) {
    const last = responses.at(-1)?.number ?? item.stateResponses
    if (last >= item.responseCount) return responses.length === item.responses.length ? item : { ...item, responses }
    const [row] = await db.run<{ page: ResponseRow[] | null }>(responsesStatement, [item.id, last, PAGE])
    const page = (row?.page ?? []).map(toResponse)
    if (page.length === 0) return { ...item, responses }
    responses.push(...page)
  }
}

const historyStatement = {
  name: 'processes.read-history',
  text: 'select holdfast.read_process_history($1::uuid, $2::int, $3::int, $4::int) as page',
}
const responsesStatement = {
  name: 'processes.read-responses',
  text: 'select holdfast.read_process_responses($1::uuid, $2::int, $3::int) as page',
}
