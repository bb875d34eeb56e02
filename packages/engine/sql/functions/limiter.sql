-- revision: 5
-- after: kernel
--
-- Token buckets of rate limits (R-01), stored as in GCRA. With T = 1 / rate and a bucket that is full at F, the next slot is at
-- max(now, F - (burst - 1) * T), and taking it moves F to max(now, F) + T. What must not break: whatever the clock does, F moves on by
-- T for every slot and is never less than a slot's own time plus T. So the n-th slot of any span is at least (n - burst) * T after the
-- first: in t seconds there are at most burst + rate * t slots.
--
-- Times are relative to now, in microseconds. The lead of a bucket is how far its F is ahead of now.

-- The effective burst: one second's worth of slots if none is configured.
create or replace function holdfast.effective_burst(tickets_per_second float8, burst int)
returns int
language sql
immutable
parallel safe
begin atomic
  select coalesce(burst, greatest(1, floor(tickets_per_second))::int);
end;

-- The lead of a bucket at a moment, with the present rate and burst, in microseconds.
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
  -- A clock that was set back counts as having stood still: the lead is the old one. Otherwise the key would be closed until the clock
  -- has caught up. Up to one second is ignored, because the result is exact then too.
  if bucket.written_at - at > interval '1 second' then
    v_lead := extract(epoch from bucket.full_at - bucket.written_at) * 1e6;
  end if;
  v_lead := greatest(v_lead, 0);
  if bucket.tickets_per_second = rate and bucket.burst = burst then
    return v_lead;
  end if;
  -- The configuration has changed. Reserved slots stay where they are, and the new rate begins after the last of them. If nothing is
  -- reserved ahead, the bucket keeps its content as far as it fits the new size.
  v_last_slot := v_lead - bucket.burst * v_old_step;
  if v_last_slot > 0 then
    return v_last_slot + burst * v_step;
  end if;
  return greatest(burst - (bucket.burst - v_lead / v_old_step), 0) * v_step;
end
$$;

-- Creates the bucket of a configured key, full. It waits for another transaction that creates the same bucket.
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

-- Reserves slots of many keys for many waiters (R-02). A run is a number of equal waiters: it takes as many slots as are within its
-- maximal wait, in the order of the runs, and leaves the others to later runs. Returns for each run how many it got; the n-th of them
-- (from 0) is at first_us + n * step_us from now (at_us, since 1970), or now if that is less.
--
-- Buckets are locked in the order of their keys. A patient call waits for the lock. A call with several keys does not, because it would
-- hold the other buckets while it waits for one: the result is 'held' then.
--
-- Patient calls first queue at an advisory lock. Every update creates another version of the row, and all transactions that wait for
-- one version wake up to wait for the next: with eight connections a grant cost PostgreSQL 460 µs of CPU, and 330 µs with a queue that
-- wakes up one at a time. The lock of the row is still the one that decides.
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
  -- Before anything is locked, because all others wait for what is done under the lock of a hot bucket.
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
    -- Read after the lock was taken, so that a transaction that waited never undoes a change of the configuration.
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

    -- The one clock, read after the lock was taken: slots that passed during the wait are not granted.
    v_now := clock_timestamp() + v_shift;
    v_lead := holdfast.bucket_lead(v_bucket, v_rate, v_burst, v_now);
    v_taken := 0;
    step_us := 1e6 / v_rate;
    at_us := extract(epoch from v_now) * 1e6;
    foreach run in array v_runs loop
      first_us := v_lead - (v_burst - 1) * step_us;
      -- A billionth of a slot against rounding errors of the division: three steps by one step must not be 2.9999999999999996.
      granted := least(counts[run], greatest(0, floor((max_waits_ms[run] * 1000 - first_us) / step_us + 1e-9) + 1));
      v_lead := v_lead + granted * step_us;
      v_taken := v_taken + granted;
      return next;
    end loop;
    -- A refused request writes nothing, unless the clock was set back or the configuration has changed.
    if v_taken > 0
      or v_bucket.tickets_per_second <> v_rate
      or v_bucket.burst <> v_burst
      or v_bucket.written_at - v_now > interval '1 second'
    then
      update holdfast.rate_limit_bucket
      -- Rounded up: a slot that is a little later is within the bound.
      set full_at = v_now + ceil(v_lead) * interval '1 microsecond',
          written_at = v_now,
          tickets_per_second = v_rate,
          burst = v_burst
      where resource_key = v_key;
    end if;
  end loop;
end
$$;

-- Removes buckets that are equal to a missing one: full, and unused for the last hour (R-03).
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
