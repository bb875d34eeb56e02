import type { By, Executor } from '../../kernel/model/index.js'
import type { TroubleKey } from './find-trouble.js'

/**
 * Assigns troubles to a person, or removes the assignment, and audits it. Returns the places of those that still need a person. Assignments of
 * troubles that are gone are removed.
 */
export async function assignTroubles(
  executor: Executor,
  keys: readonly TroubleKey[],
  to: string | null,
  { actor, reason }: By,
): Promise<string[]> {
  const asked = JSON.stringify(keys.map(({ model, place, failureId }) => ({ model, place, micros: failureId })))
  const rows = await executor.run<{ place: string }>(assignStatement, [asked, to, actor, reason])
  await executor.run(collectStatement)
  return rows.map(({ place }) => place)
}

/** A constant, for the statement. */
const ASKED_MOMENT = `timestamptz '1970-01-01 00:00:00+00' + asked.micros::float8 * interval '1 microsecond'`

const assignStatement = {
  name: 'trouble.assign',
  text: `
    with found as materialized (
      select trouble.model, trouble.place, trouble.since, trouble.domain, trouble.type, trouble.step, trouble.id, trouble.work_id,
        trouble.assigned_to
      from pg_catalog.jsonb_to_recordset($1::text::jsonb) as asked (model text, place text, micros text)
      join holdfast.trouble
        on trouble.model = asked.model and trouble.place = asked.place collate "C" and trouble.since = ${ASKED_MOMENT}
      order by trouble.model, trouble.place
    ),
    given as (
      insert into holdfast.trouble_assignment (model, place, since, assigned_to, assigned_at)
      select model, place, since, $2::text, holdfast.now()
      from found
      where $2::text is not null
      on conflict (model, place) do update
      set since = excluded.since, assigned_to = excluded.assigned_to, assigned_at = excluded.assigned_at
    ),
    taken as (
      delete from holdfast.trouble_assignment as assignment
      using found
      where $2::text is null and assignment.model = found.model and assignment.place = found.place
    ),
    audited as (
      insert into holdfast.audit (at, model, event, subject_id, subject_name, actor, reason, before, after, detail)
      select holdfast.now(), found.model, 'ASSIGNED', case when found.model <> 'dispatch' then found.work_id end,
        case when found.model = 'dispatch' then found.place end, $3, $4,
        pg_catalog.jsonb_build_object('assignedTo', found.assigned_to),
        pg_catalog.jsonb_build_object('assignedTo', $2::text),
        pg_catalog.jsonb_strip_nulls(
          pg_catalog.jsonb_build_object('domain', found.domain, 'type', found.type, 'step', found.step)
        )
      from found
    )
    select place from found`,
}

const collectStatement = {
  name: 'trouble.collect-assignments',
  text: `
    delete from holdfast.trouble_assignment as assignment
    where not exists (
      select from holdfast.trouble
      where trouble.model = assignment.model and trouble.place = assignment.place and trouble.since = assignment.since
    )`,
}
