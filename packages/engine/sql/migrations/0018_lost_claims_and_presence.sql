-- release: 1
--
-- Claims that were not released in order (K-26), and the presence of workers that whoever acts on absence goes by.

-- One row per item whose last claim was lost or interrupted. Nothing is written here as long as no worker dies and no
-- worker gives up waiting for a call. A table of its own, because the hot rows are locked by users' transactions while
-- their calls run, and those of commands are PGMQ's.
create table holdfast.lost_claim (
  -- Where the item is claimed from: 'processes', 'workflows', 'commands:<queue>'.
  source text not null,
  id text not null,
  -- The claim that `state` is about. The next one that finds it not released has the next number.
  epoch int not null,
  -- What the item had recorded when it was claimed: an item that gets on with its work begins to count again.
  progress text,
  -- claimed: not begun yet. begun: its code runs beside other work. alone: nothing else runs in its worker process.
  -- interrupted: its worker was stopped in order while its code was running.
  state text not null check (state in ('claimed', 'begun', 'alone', 'interrupted')),
  -- How often in a row it was lost while it ran alone, and beside other work.
  lost_alone int not null default 0,
  lost_shared int not null default 0,
  at timestamptz not null,
  primary key (source, id)
) with (fillfactor = 70);
create index lost_claim_by_time on holdfast.lost_claim (at);

-- Received, and lost beside other work or interrupted: uses up no attempt.
alter table holdfast.command add column uncounted int not null default 0;

insert into holdfast.chore (name, every, due_at)
values ('lost_claims', interval '1 hour', statement_timestamp());
-- The last beat of any worker of the installation, and since when beats have come without a gap. After an outage of the
-- database, a machine that was suspended, or a clock that jumped, a gap is found with the first beat, and everybody who
-- lives has the time to beat before anything is done about those who are absent.
create table holdfast.presence (
  only_row boolean primary key default true check (only_row),
  last_beat_at timestamptz not null,
  steady_since timestamptz not null
);
insert into holdfast.presence (last_beat_at, steady_since) values (statement_timestamp(), statement_timestamp());
