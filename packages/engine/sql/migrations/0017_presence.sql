-- release: 1
--
-- Whether the absence of a worker means anything (K-03, K-26): only when nothing has stood still meanwhile.

-- The last beat of any worker of the installation, and since when beats have come without a gap. After an outage of the
-- database, a machine that was suspended, or a clock that jumped, a gap is found with the first beat, and everybody who
-- lives has the time to beat before anything is done about those who are absent.
create table holdfast.presence (
  only_row boolean primary key default true check (only_row),
  last_beat_at timestamptz not null,
  steady_since timestamptz not null
);
insert into holdfast.presence (last_beat_at, steady_since) values (statement_timestamp(), statement_timestamp());
