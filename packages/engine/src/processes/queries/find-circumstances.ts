import { splitName } from '../../kernel/ids/name.js'
import { type Executor, GONE_AFTER } from '../../kernel/model/index.js'

/** What has to be known besides the process itself to say why it does not continue. */
export interface Circumstances {
  /** The time of the database. */
  readonly now: Date
  /** The pause that stops it, if there is one. */
  readonly pause: {
    readonly subject: string
    readonly actor: string
    readonly reason: string
    readonly pausedAt: string
  } | null
  /** The newest version that a live worker has. */
  readonly liveVersion: number | null
  /** The call that it waits for or tries again. */
  readonly call: {
    readonly at: string
    /** Of the failed attempt. */
    readonly code: string | null
    readonly message: string | null
    /** The command or child that the call has started. */
    readonly started: {
      readonly what: 'command' | 'child'
      readonly id: string
      readonly status: string
      readonly code: string | null
      readonly needsPerson: boolean
    } | null
  } | null
}

export async function findCircumstances(
  executor: Executor,
  { id, name, waitingFor }: { readonly id: string; readonly name: string; readonly waitingFor: string | null },
): Promise<Circumstances> {
  const subjects = [`domain:${splitName(name).domain}`, `definition:${name}`]
  // Of several calls that it waits for, the first is told.
  const first = waitingFor?.split(', ')[0] ?? null
  const [row] = await executor.run<Circumstances & object>(statement, [id, name, subjects, first, GONE_AFTER])
  return row ?? { now: new Date(), pause: null, liveVersion: null, call: null }
}

const statement = {
  name: 'processes.find-circumstances',
  text: `
    select
      holdfast.now() as now,
      (
        select pg_catalog.json_build_object(
          'subject', subject, 'actor', actor, 'reason', reason, 'pausedAt', paused_at
        )
        from holdfast.pause
        where subject = any ($3::text[])
        order by paused_at
        limit 1
      ) as pause,
      (
        select pg_catalog.max(version)
        from holdfast.worker_definition
        where model = 'processes' and name = $2 and seen_at > holdfast.now() - $5::float8 * interval '1 ms'
      ) as "liveVersion",
      (
        select pg_catalog.json_build_object(
          'at', call.at,
          'code', call.detail -> 'error'::text ->> 'code'::text,
          'message', call.detail -> 'error'::text ->> 'message'::text,
          'started', coalesce(
            (
              select pg_catalog.json_build_object(
                'what', 'child', 'id', child.id, 'status', child.status, 'code', detail.error_code,
                'needsPerson', child.status = 'WAITING_FOR_TSQ'
              )
              from holdfast.process as child
              join holdfast.process_detail as detail on detail.id = child.id
              where child.id = (call.detail ->> 'startedId'::text)::uuid
            ),
            (
              select pg_catalog.json_build_object(
                'what', 'command', 'id', command.command_id, 'status', command.status, 'code', trouble.error_code,
                'needsPerson', trouble.command_id is not null
              )
              from holdfast.command
              left join holdfast.command_trouble as trouble
                on trouble.domain = command.domain and trouble.command_id = command.command_id
              where command.command_id = (call.detail ->> 'startedId'::text)::uuid and command.correlation_id = $1::uuid
              limit 1
            )
          )
        )
        from holdfast.process
        join holdfast.process_history as call on call.process_id = process.id and call.generation = process.generation
        where process.id = $1::uuid and holdfast.call_id(call.name, call.occurrence) = $4
        order by call.seq desc
        limit 1
      ) as call`,
}
