import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/model/index.js'
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
  /** What it waits for, if that needs a person: a command in troubleshooting, or a child. */
  readonly awaited: {
    readonly what: 'command' | 'child'
    /** `payments/Pay` */
    readonly name: string
    readonly id: string
    /** The call that started it. */
    readonly step: string
    readonly code: string
    readonly message: string
  } | null
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
      end as step,
      case
        when process.leased_by is null and process.status in ('WAITING_FOR_ASYNC', 'COMPENSATING')
          then coalesce(
            (
              select pg_catalog.json_build_object(
                'what', 'command', 'name', command.domain || '/'::text || command.type, 'id', command.command_id,
                'step', holdfast.call_id(call.name, call.occurrence), 'code', command.error_code, 'message', command.error_message
              )
              from holdfast.command
              join holdfast.process_history as call
                on call.process_id = process.id
                and call.generation = process.generation
                and call.detail ->> 'startedId'::text = command.command_id::text
              where command.correlation_id = process.id
                and command.status = 'IN_TROUBLESHOOTING_QUEUE'
                and holdfast.call_id(call.name, call.occurrence) = any (pg_catalog.string_to_array(detail.waiting_for, ', '))
              limit 1
            ),
            (
              select pg_catalog.json_build_object(
                'what', 'child', 'name', child.type, 'id', child.id, 'step', of_child.parent_call,
                'code', of_child.error_code, 'message', of_child.error_message
              )
              from holdfast.process_detail as of_child
              join holdfast.process as child on child.id = of_child.id
              where of_child.parent_id = process.id
                and child.status = 'WAITING_FOR_TSQ'
                and of_child.parent_call = any (pg_catalog.string_to_array(detail.waiting_for, ', '))
              limit 1
            )
          )
      end as awaited
    from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) as asked (name, reference)
    join holdfast.process on process.id = holdfast.process_id_of(asked.name, asked.reference)
    join holdfast.process_detail as detail on detail.id = process.id`,
}
