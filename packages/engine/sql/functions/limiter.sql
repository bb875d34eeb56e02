-- revision: 4
-- after: kernel
--
-- Token buckets (R-01), kept as GCRA does: with T = 1 / rate and a bucket that is full at F, the next slot is at
-- max(now, F - (burst - 1) * T), and taking it moves F to max(now, F) + T. Whatever the clock does meanwhile, F moves on by
-- T for every slot and is never less than a slot's own time plus T; so the n-th slot of any span lies at least
-- (n - burst) * T after the first, which is the promise: in t seconds at most burst + rate * t.
--
-- Times are measured from now, in microseconds; the lead of a bucket is how far its F lies ahead.

-- The burst in force: one second's worth where none is configured.
create or replace function holdfast.effective_burst(tickets_per_second float8, burst int)
returns int
language sql
immutable
parallel safe
begin atomic
  select coalesce(burst, greatest(1, floor(tickets_per_second))::int);
end;

-- How far ahead a bucket's F lies at a moment, under the rate and burst that are in force then (in microseconds).
create or replace function holdfast.bucket_lead(bucket holdfast.rate_limit_bucket, rate float8, burst int, at timestamptz)
returns float8
language plpgsql
immutable
parallel safe
as $$
declare
  v_lead float8 := extract(epoch from bucket.full_at - at) * 1e6;
  v_old_step float8 := 1e6 / bucket.tickets_per_second;
  v_step float8 := 1e6 / rate;
  v_last_slot float8;
begin
  -- A clock that was set back has stood still: the lead is what it was. Without this the key would be closed until the
  -- clock has caught up. A second's worth is left alone, since that is exact too and heals by itself.
  if bucket.written_at - at > interval '1 second' then
    v_lead := extract(epoch from bucket.full_at - bucket.written_at) * 1e6;
  end if;
  v_lead := greatest(v_lead, 0);
  if bucket.tickets_per_second = rate and bucket.burst = burst then
    return v_lead;
  end if;
  -- The configuration has changed. What is reserved stays where it is and the new rate begins after the last of it;
  -- where nothing is reserved ahead, the bucket keeps what is in it, as far as that fits the new one.
  v_last_slot := v_lead - bucket.burst * v_old_step;
  if v_last_slot > 0 then
    return v_last_slot + burst * v_step;
  end if;
  return greatest(burst - (bucket.burst - v_lead / v_old_step), 0) * v_step;
end
$$;

-- Makes the bucket of a key that is configured, as a full one. Somebody else who makes the same one is waited for.
create or replace function holdfast.make_bucket(key text)
returns void
language sql
as $$
  insert into holdfast.rate_limit_bucket (resource_key, full_at, written_at, tickets_per_second, burst)
  select resource_key, holdfast.now(), holdfast.now(), tickets_per_second, holdfast.effective_burst(tickets_per_second, burst)
  from holdfast.rate_limit
  where resource_key = key
  on conflict do nothing
$$;

-- Reserves slots of many keys for many waiters (R-02). A run is a number of like waiters: it takes as many slots as lie
-- within its maximal wait, in the order of the runs, and leaves the others to those behind it. Answers per run how many it
-- has got; the n-th of them (from 0) is first_us + n * step_us from now (at_us, since 1970), or now where that is less.
--
-- Buckets are locked in the order of their keys. Patiently, the lock is waited for; with several keys it is not, because
-- whoever waits for one bucket would hold the others meanwhile: the answer is then 'held'.
--
-- Patient ones first queue at an advisory lock. Every update makes another version of the row, and those who wait for one
-- version all wake up to wait for the next: with eight connections a grant cost PostgreSQL 460 µs of CPU, and costs 330 with
-- a queue in which one is woken at a time. The row's lock stays the one that decides.
-- planner: generic, no seqscan
create or replace function holdfast.reserve_slots(keys text[], counts int[], max_waits_ms float8[], patient boolean)
returns table (run int, outcome text, granted int, first_us float8, step_us float8, at_us float8)
language plpgsql
set lock_timeout = '100ms'
as $$
declare
  v_key text;
  v_runs int[];
  v_bucket holdfast.rate_limit_bucket;
  v_rate float8;
  v_burst int;
  v_now timestamptz;
  v_lead float8;
  v_taken bigint;
  v_shift interval;
  v_seed bigint;
begin
  -- Before anything is locked: what is done under the lock of a hot bucket is what all others wait for.
  select holdfast.now() - statement_timestamp(), clock.tableoid::bigint
  into v_shift, v_seed
  from holdfast.clock;
  for v_key, v_runs in
    select asked.key, array_agg(asked.place::int order by asked.place)
    from unnest(keys) with ordinality as asked (key, place)
    group by asked.key
    order by asked.key collate "C"
  loop
    outcome := 'reserved';
    if patient then
      perform pg_advisory_xact_lock(hashtextextended('holdfast bucket ' || v_key, v_seed));
    end if;
    loop
      if patient then
        select * into v_bucket from holdfast.rate_limit_bucket where resource_key = v_key for no key update;
      else
        select * into v_bucket from holdfast.rate_limit_bucket where resource_key = v_key for no key update skip locked;
      end if;
      exit when found;
      if not patient and exists (select from holdfast.rate_limit_bucket where resource_key = v_key) then
        outcome := 'held';
        exit;
      end if;
      perform holdfast.make_bucket(v_key);
      if not exists (select from holdfast.rate_limit where resource_key = v_key) then
        outcome := 'unknown';
        exit;
      end if;
    end loop;
    -- Read when the lock is there, so that a change of the configuration is never undone by somebody who waited.
    select rate_limit.tickets_per_second, holdfast.effective_burst(rate_limit.tickets_per_second, rate_limit.burst)
    into v_rate, v_burst
    from holdfast.rate_limit
    where resource_key = v_key;
    if not found then
      outcome := 'unknown';
    end if;
    if outcome <> 'reserved' then
      granted := 0;
      foreach run in array v_runs loop
        return next;
      end loop;
      continue;
    end if;

    -- The one clock, but not as it was before we waited for the lock: slots that have passed meanwhile are nobody's.
    v_now := clock_timestamp() + v_shift;
    v_lead := holdfast.bucket_lead(v_bucket, v_rate, v_burst, v_now);
    v_taken := 0;
    step_us := 1e6 / v_rate;
    at_us := extract(epoch from v_now) * 1e6;
    foreach run in array v_runs loop
      first_us := v_lead - (v_burst - 1) * step_us;
      -- A billionth of a slot for the noise of the division: three steps by one step must not be 2.9999999999999996.
      granted := least(counts[run], greatest(0, floor((max_waits_ms[run] * 1000 - first_us) / step_us + 1e-9) + 1));
      v_lead := v_lead + granted * step_us;
      v_taken := v_taken + granted;
      return next;
    end loop;
    -- Who is refused writes nothing, unless time has to be counted from now on in another way.
    if v_taken > 0
      or v_bucket.tickets_per_second <> v_rate
      or v_bucket.burst <> v_burst
      or v_bucket.written_at - v_now > interval '1 second'
    then
      update holdfast.rate_limit_bucket
      -- Rounded up: a little too late is within the promise.
      set full_at = v_now + ceil(v_lead) * interval '1 microsecond',
          written_at = v_now,
          tickets_per_second = v_rate,
          burst = v_burst
      where resource_key = v_key;
    end if;
  end loop;
end
$$;

-- Removes the buckets that say no more than a missing one: full, and unused for the last hour (R-03).
create or replace function holdfast.remove_idle_buckets()
returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_removed int;
begin
  delete from holdfast.rate_limit_bucket
  where resource_key = any (array(
    select resource_key
    from holdfast.rate_limit_bucket
    where full_at <= v_now and written_at <= v_now - interval '1 hour'
    for update skip locked
  ));
  get diagnostics v_removed = row_count;
  return v_removed;
end
$$;
