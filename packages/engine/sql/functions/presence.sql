-- revision: 1
-- after: kernel
--
-- The beat of workers, and what absence means. Workers beat once a minute, each time after they have noted which
-- definitions and handlers they have.

-- A worker lives. A gap of more than two beats, or a clock that went backwards, begins the count again.
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

-- Whether everybody who lives has beaten since the last standstill: beats have come without a gap for two beats.
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

-- Has no worker told for so long that it has something? `seen_at` is when one last did; what none has ever had is absent.
create or replace function holdfast.is_absent(seen_at timestamptz, age interval)
returns boolean
language sql
stable
as $$
  select seen_at is null or seen_at < holdfast.now() - age and holdfast.absence_counts()
$$;
