-- revision: 7
--
-- The functions that all models share: clock, pauses, wake-ups, and the audit trail. What must not break: a signature that is in use
-- never changes, because an older release may still call it; a new signature gets a new name.

-- The one clock. STABLE over statement_timestamp(), so that `due_at <= holdfast.now()` can use an index: with a volatile function a claim
-- among a million waiting rows took 110 ms instead of 0.2 ms.
create or replace function holdfast.now()
returns timestamptz
language sql
stable
parallel safe
begin atomic
  select statement_timestamp() + (select shift from holdfast.clock);
end;

-- Whether any of these subjects is paused (K-18). Claims call it for every type they go through.
create or replace function holdfast.is_paused(subjects text[])
returns boolean
language sql
stable
parallel safe
begin atomic
  select exists (select from holdfast.pause where subject = any (subjects));
end;

-- Topics are hashed into the sixteen rows of wake_bucket; a listener uses this to find its own.
create or replace function holdfast.wake_bucket_of(topic text)
returns int
language sql
immutable
parallel safe
begin atomic
  select hashtext(topic) & 15;
end;

-- The channel of this installation: one per schema, since NOTIFY knows databases but not schemas.
create or replace function holdfast.wake_channel()
returns text
language sql
stable
parallel safe
begin atomic
  select 'holdfast_' || 'holdfast.clock'::regclass::oid;
end;

-- Wakes up the idle workers of a topic when the caller's transaction commits, at most once in five milliseconds for all callers together
-- (K-06). NOTIFY takes a lock of the whole database at commit: one in each of 50 concurrent transactions reduces commits to a quarter.
-- Work whose notification is skipped here is found by the worker that was woken up, because it polls again shortly after.
create or replace function holdfast.wake(topic text)
returns void
language plpgsql
volatile
as $$
declare
  v_bucket int := holdfast.wake_bucket_of(topic);
  v_now bigint := extract(epoch from clock_timestamp()) * 1000;
  -- By the sequence's name and with assignments: a query for each would cost an idle sender more than the notification.
  v_sequence regclass := ('holdfast.wake_' || v_bucket)::regclass;
  v_last bigint := pg_sequence_last_value(v_sequence);
begin
  -- The distance counts in both directions: a clock that was set back must not silence wake-ups until it catches up.
  if v_last is null or abs(v_now - v_last) >= 5 then
    v_last := setval(v_sequence, v_now);
    perform pg_notify(holdfast.wake_channel(), v_bucket::text);
  end if;
end
$$;

-- A caller waits for the end of work of this model during the next half minute (K-22).
create or replace function holdfast.await_results(p_model text)
returns void
language sql
as $$
  insert into holdfast.result_wait (model, until)
  values (p_model, holdfast.now() + interval '30 seconds')
  on conflict (model) do update set until = excluded.until
  where result_wait.until < excluded.until - interval '5 seconds'
$$;

-- Work of this model has ended or needs an operator: notifies the callers that wait, if there are any.
create or replace function holdfast.wake_results(p_model text)
returns void
language plpgsql
as $$
begin
  if exists (select from holdfast.result_wait where model = p_model and until > holdfast.now()) then
    perform holdfast.wake('results:' || p_model);
  end if;
end
$$;

create or replace function holdfast.refuse_audit_change()
returns trigger
language plpgsql
as $$
begin
  raise exception 'the audit trail is append-only' using errcode = 'restrict_violation';
end
$$;

-- On the table itself, so that it also fires for statements that change no row.
create or replace trigger audit_is_append_only
before update or delete or truncate on holdfast.audit
for each statement execute function holdfast.refuse_audit_change();

-- PostgreSQL copies it to every present and future partition (K-27), because a statement may name a partition.
create or replace trigger audit_rows_stay
before update or delete on holdfast.audit
for each row execute function holdfast.refuse_audit_change();

-- A row trigger does not fire for TRUNCATE, so each partition has a trigger of its own against it.
create or replace function holdfast.protect_audit_partition(partition regclass)
returns void
language plpgsql
as $$
begin
  execute format(
    'create or replace trigger audit_is_append_only before truncate on %s for each statement execute function %srefuse_audit_change()',
    partition, 'holdfast.'
  );
end
$$;

-- Creates the partitions of this week and of the given number of weeks to come; returns the names of the new ones. Each is created as a
-- plain table and then attached, which blocks no reader or writer of the audit trail. The short lock of the (normally empty) default
-- partition is given up after a moment and taken by the next chore. Runs with the rights of its owner, because a role that only runs
-- workers may not create tables (docs/operations/rights.md).
create or replace function holdfast.ensure_audit_partitions(weeks_ahead int)
returns setof text
language plpgsql
security definer
set timezone = 'UTC'
set lock_timeout = '1s'
as $$
declare
  v_schema text := (select relnamespace::regnamespace from pg_class where oid = (select tableoid from holdfast.clock));
  v_week timestamptz;
  v_name text;
begin
  -- An advisory lock of the transaction, so that two workers do not create the same partition; nothing else takes it.
  if not pg_try_advisory_xact_lock(hashtextextended('holdfast audit partitions', (select tableoid from holdfast.clock)::bigint)) then
    return;
  end if;
  for v_week in
    select week
    from generate_series(0, weeks_ahead) ahead,
         lateral (select date_trunc('week', holdfast.now()) + ahead * interval '7 days') as at (week)
  loop
    v_name := 'audit_' || to_char(v_week, 'IYYY"w"IW');
    continue when to_regclass(v_schema || '.' || quote_ident(v_name)) is not null;
    -- Rows already in the default partition stay there: moving them would need a long exclusive lock.
    continue when exists (
      select from holdfast.audit_default where at >= v_week and at < v_week + interval '7 days'
    );
    execute format('create table %1$s.%2$I (like %1$s.audit including defaults including constraints)', v_schema, v_name);
    execute format(
      'alter table %s.%I add constraint %I check (at >= %L and at < %L)',
      v_schema, v_name, v_name || '_week', v_week, v_week + interval '7 days'
    );
    execute format(
      'alter table %1$s.audit attach partition %1$s.%2$I for values from (%3$L) to (%4$L)',
      v_schema, v_name, v_week, v_week + interval '7 days'
    );
    perform holdfast.protect_audit_partition(format('%s.%I', v_schema, v_name)::regclass);
    -- The check constraint saved a scan of all rows during the attach. The bounds of the partition say the same from now on.
    execute format('alter table %s.%I drop constraint %I', v_schema, v_name, v_name || '_week');
    return next v_name;
  end loop;
end
$$;

revoke execute on function holdfast.ensure_audit_partitions(int) from public;
revoke execute on function holdfast.protect_audit_partition(regclass) from public;

select holdfast.protect_audit_partition(inhrelid)
from pg_inherits
where inhparent = 'holdfast.audit'::regclass;

-- The first partitions, so that the trail of a new installation does not begin in the default partition.
select holdfast.ensure_audit_partitions(4);

-- Creates a function whose body is generated: those of a queue, and those of a work table. It fixes the search path and marks the
-- function as internal here, because no migration may be running then (K-27).
create or replace function holdfast.make_function(p_name text, p_arguments text, p_body text, p_settings text default '')
returns void
language plpgsql
as $$
declare
  v_definition constant text := format(
    'create or replace function %s%I(%s) language plpgsql %s set search_path = pg_catalog, pg_temp as %L',
    'holdfast.', p_name, p_arguments, p_settings, p_body
  );
begin
  begin
    execute v_definition;
  exception when invalid_function_definition then
    -- A function with another result type cannot be replaced.
    execute format('drop function %s%I', 'holdfast.', p_name);
    execute v_definition;
  end;
  execute format('comment on function %s%I is %L', 'holdfast.', p_name, 'internal: may change with every release');
end
$$;
