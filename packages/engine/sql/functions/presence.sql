-- revision: 4
-- after: kernel
--
-- Heartbeats of workers, and when a definition counts as absent. A worker records once a minute which definitions and handlers it has,
-- together with its heartbeat. What must not break: after an outage nothing counts as absent before every live worker has recorded again.

-- Records the definitions of a worker, and its heartbeat.
create or replace function holdfast.note_worker(p_worker text, p_has jsonb)
returns void
language plpgsql
as $$
begin
  insert into holdfast.worker_definition as known (model, name, version, worker, lease_ms, seen_at)
  select has.model, has.name, has.version, p_worker, has.lease_ms, holdfast.now()
  from jsonb_to_recordset(p_has) as has (model text, name text, version int, lease_ms int)
  order by has.model, has.name, has.version
  on conflict (model, name, version, worker) do update
  set seen_at = excluded.seen_at, lease_ms = greatest(known.lease_ms, excluded.lease_ms);
  perform holdfast.note_beat();
end
$$;

-- A worker has stopped in order: it counts as gone at once, as it would after two missed heartbeats.
create or replace function holdfast.note_worker_stopped(p_worker text)
returns void
language sql
as $$
  update holdfast.worker_definition
  set seen_at = least(seen_at, holdfast.now() - interval '150 s')
  where worker = p_worker
$$;

-- When a worker last recorded this definition. Null: none ever did.
create or replace function holdfast.last_seen(p_model text, p_name text)
returns timestamptz
language sql
stable
begin atomic
  select max(seen_at) from holdfast.worker_definition where model = p_model and name = p_name;
end;

-- Removes the rows of workers that are gone. The last row of a definition is kept, so that a known name stays known. A lease lasts for a
-- day at most, and lists use the leases of the workers that had a definition.
create or replace function holdfast.forget_workers()
returns void
language sql
as $$
  delete from holdfast.worker_definition as gone
  where gone.seen_at < holdfast.now() - interval '2 days'
    and exists (
      select from holdfast.worker_definition as other
      where other.model = gone.model and other.name = gone.name and other.version = gone.version
        and (other.seen_at, other.worker) > (gone.seen_at, gone.worker)
    )
$$;

-- Records a heartbeat. A gap of more than two intervals, or a clock that went backwards, restarts the count.
create or replace function holdfast.note_beat()
returns void
language sql
as $$
  update holdfast.presence
  set last_beat_at = holdfast.now(),
      steady_since = case
        when holdfast.now() - last_beat_at between interval '0' and interval '150 s' then steady_since
        else holdfast.now()
      end
$$;

-- Whether every live worker has recorded its definitions since the last outage: heartbeats came without a gap for two intervals.
create or replace function holdfast.absence_counts()
returns boolean
language sql
stable
as $$
  select exists (
    select from holdfast.presence
    where last_beat_at between holdfast.now() - interval '150 s' and holdfast.now()
      and steady_since <= holdfast.now() - interval '120 s'
  )
$$;

-- Whether no worker has recorded a definition for `age`. `seen_at` is when one last did; a definition that no worker ever had is absent.
create or replace function holdfast.is_absent(seen_at timestamptz, age interval)
returns boolean
language sql
stable
as $$
  select seen_at is null or seen_at < holdfast.now() - age and holdfast.absence_counts()
$$;
