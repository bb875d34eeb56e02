-- release: 1
--
-- Rate limits: what operators configure, and apart from it the buckets that all workers write.

-- The configuration; may be changed by plain SQL at any time. The next reservation goes by what it says.
create table holdfast.rate_limit (
  resource_key text collate "C" primary key check (length(resource_key) between 1 and 200),
  -- NaN is greater than everything, so that the upper bound refuses it as well.
  tickets_per_second float8 not null check (tickets_per_second between 1e-6 and 1e9),
  -- One second's worth, but at least one, where it is left out.
  burst int check (burst between 1 and 1000000000),
  description text,
  -- A bucket that takes centuries to fill would leave the range of timestamps.
  constraint rate_limit_bucket_fills_up check (burst / tickets_per_second <= 1e9)
);

-- One narrow row per key in use, the hottest there is. `full_at` is all of a token bucket: it is full from then on, every
-- slot that is taken moves it on by 1 / rate, and a row that lies in the past says no more than one that is missing. The
-- rate and burst are those it was written by, so that a changed configuration is noticed; `written_at` tells a clock that
-- was set back. Most of each page is left to the row's next versions (HOT).
create table holdfast.rate_limit_bucket (
  resource_key text collate "C" primary key,
  full_at timestamptz not null,
  written_at timestamptz not null,
  tickets_per_second float8 not null,
  burst int not null
) with (fillfactor = 20);

insert into holdfast.chore (name, every, due_at)
values ('rate_limit_buckets', interval '1 hour', statement_timestamp());
