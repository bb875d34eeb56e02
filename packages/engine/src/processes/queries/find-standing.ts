import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/database/executor.js'
import type { ProcessStatus } from '../states.js'

/** What a caller that waits for the end of a process needs to know; `EXECUTING` is not shown separately. */
export interface Standing {
  /** The id or key that was asked for. */
  readonly name: string
  readonly reference: string
  readonly id: string
  /** `payments/Payment` */
  readonly type: string
  readonly status: ProcessStatus
  readonly result: unknown
  readonly resultNotes: Notes | null
  readonly code: string
  readonly message: string
  /** Where it failed, while it is in troubleshooting. */
  readonly step: string | null
}

/** By definition and id or key; processes that do not exist are missing from the result. */
export function findStandings(
  executor: Executor,
  asked: readonly { readonly name: string; readonly reference: string }[],
): Promise<Standing[]> {
  return executor.run<Standing & object>(standingsStatement, [
    asked.map(({ name }) => name),
    asked.map(({ reference }) => reference),
  ])
}

const standingsStatement = {
  name: 'processes.find-standings',
  text: `
    select
      asked.name, asked.reference, process.id, process.type, process.status, detail.result, detail.result_notes as "resultNotes",
      coalesce(detail.error_code, '') as code, coalesce(detail.error_message, '') as message,
      case
        when process.status = 'WAITING_FOR_TSQ' then (select trouble.step from holdfast.process_trouble as trouble where trouble.id = process.id)
      end as step
    from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) as asked (name, reference)
    join holdfast.process on process.id = holdfast.process_id_of(asked.name, asked.reference)
    join holdfast.process_detail as detail on detail.id = process.id`,
}
