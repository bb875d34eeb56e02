-- revision: 3
-- after: commands-send
--
-- Counts the items of batches and closes batches whose items have all ended. Senders and workers insert one tally per flush instead of
-- updating the batch, so they never wait for each other. A worker later adds the tallies to the batch's row (`tallied_…`) and deletes
-- them. The count of a batch is its row plus its tallies, in one snapshot, so reading a batch costs little however many items it has.

-- Adds tallies to the rows of these batches, which the caller has locked: all that the caller has locked, and up to `p_most` others.
-- Tallies that another transaction has locked are left to it. Returns how many were added.
create or replace function holdfast.fold_batch_tallies(p_batches uuid[], p_taken bigint[], p_most int)
returns int
language plpgsql
as $$
declare
  v_ids bigint[] := p_taken || array(
    select tally_id
    from holdfast.batch_tally
    where batch_id = any (p_batches) and tally_id <> all (p_taken)
    limit p_most
    for update skip locked
  );
begin
  with folded as (
    delete from holdfast.batch_tally
    where tally_id = any (v_ids)
    returning batch_id, added, completed, failed, cancelled
  ),
  summed as (
    select batch_id, sum(added) as added, sum(completed) as completed, sum(failed) as failed, sum(cancelled) as cancelled
    from folded
    group by batch_id
  )
  update holdfast.batch
  set tallied_total = tallied_total + summed.added,
      tallied_completed = tallied_completed + summed.completed,
      tallied_failed = tallied_failed + summed.failed,
      tallied_cancelled = tallied_cancelled + summed.cancelled
  from summed
  where batch.batch_id = summed.batch_id;
  return cardinality(v_ids);
end
$$;

-- A chore: adds the tallies of batches that only receive items. These tallies are never due, because no item has ended yet.
create or replace function holdfast.fold_idle_batches()
returns int
language plpgsql
as $$
declare
  v_batch uuid;
  v_folded int;
  v_all int := 0;
begin
  for v_batch in
    select batch_id from holdfast.batch_tally where due_at is null group by batch_id having count(*) > 100 limit 100
  loop
    perform from holdfast.batch where batch_id = v_batch for no key update skip locked;
    if found then
      v_folded := holdfast.fold_batch_tallies(array[v_batch], '{}', 200000);
      v_all := v_all + v_folded;
    end if;
  end loop;
  return v_all;
end
$$;

-- Closes batches whose items have all ended (C-12). Due tallies are locked first. Open items are then read by a statement of its own,
-- whose snapshot sees all these tallies. So if the last two items end at the same moment, each leaves a tally, and the worker that
-- locks the later one finds no open item. Returns how many tallies were locked.
create or replace function holdfast.close_batches(most int)
returns table (taken int, closed json, next_due_ms float8)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_tallies bigint[];
  v_batches uuid[];
  v_closed json;
  v_callback jsonb;
begin
  v_tallies := array(
    select tally_id from holdfast.batch_tally
    where due_at <= v_now
    order by due_at
    limit most
    for update skip locked
  );
  v_batches := array(
    select distinct batch_id from holdfast.batch_tally where tally_id = any (v_tallies) order by 1
  );
  -- In the order of ids, so that two workers that close batches cannot deadlock.
  perform from holdfast.batch where batch_id = any (v_batches) order by batch_id for no key update;
  with begun as (
    update holdfast.batch
    set status = 'IN_PROGRESS', started_at = v_now
    where batch_id = any (v_batches) and status = 'PENDING'
    returning batch_id
  )
  insert into holdfast.audit (at, model, event, subject_id)
  select v_now, 'commands', 'BATCH_STARTED', batch_id from begun;

  perform holdfast.fold_batch_tallies(v_batches, v_tallies, 5000);
  -- Tallies that remain are locked by another transaction, or were inserted since.
  with counted as (
    select
      batch.batch_id,
      batch.tallied_total + coalesce(sum(tally.added), 0) as total,
      batch.tallied_completed + coalesce(sum(tally.completed), 0) as completed,
      batch.tallied_failed + coalesce(sum(tally.failed), 0) as failed,
      batch.tallied_cancelled + coalesce(sum(tally.cancelled), 0) as cancelled
    from holdfast.batch
    left join holdfast.batch_tally as tally on tally.batch_id = batch.batch_id
    where batch.batch_id = any (v_batches)
    group by batch.batch_id
  ),
  done as (
    update holdfast.batch
    set status = case when counted.failed + counted.cancelled > 0 then 'COMPLETED_WITH_FAILURES' else 'COMPLETED' end,
        completed_at = v_now,
        total = counted.total,
        completed = counted.completed,
        failed = counted.failed,
        cancelled = counted.cancelled
    from counted
    where batch.batch_id = counted.batch_id
      and batch.sealed
      and batch.completed_at is null
      and not exists (select from holdfast.batch_open where batch_open.batch_id = batch.batch_id)
    returning batch.*
  ),
  audited as (
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'commands', 'BATCH_COMPLETED', batch_id,
      jsonb_build_object('total', total, 'completed', completed, 'failed', failed, 'cancelled', cancelled)
    from done
  )
  select
    json_agg(json_build_object('batchId', batch_id, 'domain', domain, 'status', status)),
    jsonb_agg(jsonb_build_object('queue', on_complete ->> 'queue', 'domain', on_complete ->> 'domain', 'commands',
      jsonb_build_array(on_complete || jsonb_build_object('data', jsonb_build_object(
        'batchId', batch_id, 'name', name, 'data', data, 'status', status,
        'total', total, 'completed', completed, 'failed', failed, 'cancelled', cancelled
      ), 'notes', (
        select jsonb_object_agg('/data' || pointer, kind) from jsonb_each(notes) as note (pointer, kind)
      )))
    )) filter (where on_complete is not null)
  into v_closed, v_callback
  from done;
  if v_callback is not null then
    -- The command's id is derived from the batch's id, so it is sent only once.
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'commands', 'REPLY_FAILED', batch.batch_id, jsonb_build_object('problem', refused.outcome)
    from holdfast.send_commands(v_callback) as refused
    join holdfast.batch on batch.batch_id = any (v_batches) and (batch.on_complete ->> 'command_id')::uuid = refused.id
    where refused.outcome <> 'duplicate';
  end if;
  -- A closed batch has its counts in its own row. A tally that another worker has locked is skipped: that worker waits for our lock on
  -- the batch, and deletes the tally itself.
  delete from holdfast.batch_tally
  where tally_id = any (array(
    select tally.tally_id
    from holdfast.batch_tally as tally
    join holdfast.batch on batch.batch_id = tally.batch_id
    where tally.batch_id = any (v_batches) and batch.completed_at is not null
    for update of tally skip locked
  ));
  return query select
    cardinality(v_tallies),
    coalesce(v_closed, '[]'::json),
    (select extract(epoch from min(due_at) - v_now)::float8 * 1000 from holdfast.batch_tally where due_at > v_now);
end
$$;
