-- revision: 3
-- after: kernel
--
-- Claims that were not released in order (K-26): which items were lost, and whether other work ran beside them. The claims of the models
-- call it for the few items whose last claim was lost, and workers call it around the execution of these items. What must not break: a
-- crash counts against an item only if the item ran alone.

-- Updates the loss records of items that were just claimed and whose claim before (`epoch - 1`) was not released in order. Returns how
-- often in a row that has happened without progress. `counted`: it ran alone when it was last lost. `first_to_try`: it had begun, or was
-- to run alone, when its worker died; of many that were lost together it is tried first.
create or replace function holdfast.weigh_lost_claims(p_source text, ids text[], epochs int[], progresses text[])
returns table (
  id text, lost_alone int, lost_shared int, known_before boolean, counted boolean, interrupted boolean, first_to_try boolean
)
language plpgsql
as $$
begin
  return query
  with asked as (
    select it.id, it.epoch, it.progress, known.state, known.lost_alone, known.lost_shared,
      known.state is not null as chained,
      known.progress is not distinct from it.progress as stands_still
    from unnest(ids, epochs, progresses) as it (id, epoch, progress)
    left join holdfast.lost_claim as known
      on known.source = p_source and known.id = it.id and known.epoch = it.epoch - 1
  ),
  counts as (
    select asked.*,
      case when chained and stands_still then asked.lost_alone else 0 end + (chained and state = 'alone')::int as alone,
      case when chained and stands_still then asked.lost_shared else 0 end
        + (not chained or state = 'begun')::int as shared
    from asked
  ),
  weighed as (
    insert into holdfast.lost_claim as noted (source, id, epoch, progress, state, lost_alone, lost_shared, at)
    select
      p_source, asked.id, asked.epoch, asked.progress,
      -- An item that was interrupted, or lost for the first time, runs beside other work at once.
      case when asked.state = 'interrupted' or alone + shared <= 1 then 'begun' else 'claimed' end,
      alone,
      shared,
      holdfast.now()
    from counts as asked
    order by asked.id
    on conflict on constraint lost_claim_pkey do update
    set epoch = excluded.epoch, progress = excluded.progress, state = excluded.state, lost_alone = excluded.lost_alone,
        lost_shared = excluded.lost_shared, at = excluded.at
    returning noted.id, noted.lost_alone, noted.lost_shared
  )
  select weighed.id, weighed.lost_alone, weighed.lost_shared,
    asked.chained,
    coalesce(asked.state = 'alone', false),
    coalesce(asked.state = 'interrupted', false),
    coalesce(asked.state in ('begun', 'alone'), false)
  from weighed
  join asked on asked.id = weighed.id;
end
$$;

-- The loss record as the loop that claimed the item gets it.
create or replace function holdfast.lost_claim_json(
  lost_alone int, lost_shared int, counted boolean, interrupted boolean, first_to_try boolean
)
returns json
language sql
immutable
as $$
  select json_build_object(
    'alone', lost_alone, 'shared', lost_shared, 'counted', counted, 'interrupted', interrupted, 'firstToTry', first_to_try
  )
$$;

-- The item's code is about to begin, alone or beside other work; or other work is about to begin beside it.
create or replace function holdfast.note_begun_claim(p_source text, p_id text, p_epoch int, p_state text)
returns void
language sql
as $$
  update holdfast.lost_claim
  set state = p_state, at = holdfast.now()
  where source = p_source and id = p_id and epoch = p_epoch
$$;

-- The item ended in order.
create or replace function holdfast.forget_lost_claim(p_source text, p_id text, p_epoch int)
returns void
language sql
as $$
  delete from holdfast.lost_claim where source = p_source and id = p_id and epoch = p_epoch
$$;

-- A worker that stops no longer waits for these items. They do not count as crashes, and the outcomes of their calls are unknown.
create or replace function holdfast.note_interrupted_claims(p_source text, ids text[], epochs int[])
returns void
language sql
as $$
  insert into holdfast.lost_claim (source, id, epoch, state, at)
  select p_source, it.id, it.epoch, 'interrupted', holdfast.now()
  from unnest(ids, epochs) as it (id, epoch)
  order by it.id
  on conflict (source, id) do update
  set epoch = excluded.epoch, state = excluded.state, at = excluded.at
  where lost_claim.epoch <= excluded.epoch
$$;

-- Removes rows that are left where a worker died after its item had ended.
create or replace function holdfast.clean_up_lost_claims(p_age interval, most int)
returns int
language plpgsql
as $$
declare
  v_gone int;
begin
  delete from holdfast.lost_claim
  where ctid = any (array(
    select ctid from holdfast.lost_claim where at < holdfast.now() - p_age order by at limit most for update skip locked
  ));
  get diagnostics v_gone = row_count;
  return v_gone;
end
$$;
