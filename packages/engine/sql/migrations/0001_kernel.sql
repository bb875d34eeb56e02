-- release: 1
--
-- What all models share: the clock, the audit trail, pauses, chores and the throttle of wake-ups.
-- The schema is written `holdfast` here; the migration runner puts the real name in.

-- The database's clock is the only one that decides anything. Tests move it by this row; nobody else writes it.
create table holdfast.clock (
  only_row boolean primary key default true check (only_row),
  shift interval not null default interval '0'
);
insert into holdfast.clock default values;

-- Append-only (a trigger in functions/kernel.sql refuses anything else), one partition per week. Rows for a week that
-- has no partition yet land in audit_default, so that a missed chore never stops anybody's work.
create table holdfast.audit (
  at timestamptz not null,
  seq bigint not null generated always as identity,
  model text not null,
  event text not null,
  subject_id uuid,
  subject_name text,
  actor text,
  reason text,
  before jsonb,
  after jsonb,
  detail jsonb,
  constraint audit_has_one_subject check ((subject_id is null) <> (subject_name is null)),
  constraint audit_actor_gives_reason check (actor is null or reason is not null)
) partition by range (at);
create table holdfast.audit_default partition of holdfast.audit default;
create index audit_by_subject_id on holdfast.audit (subject_id, seq) where subject_id is not null;
create index audit_by_subject_name on holdfast.audit (subject_name, seq) where subject_name is not null;
create index audit_by_actor on holdfast.audit (at, actor) where actor is not null;

-- What an operator has paused: 'domain:payments', 'definition:payments/Payment', 'handler:ChargeCard'.
-- Claims read it, so a pause holds from the moment it commits.
create table holdfast.pause (
  subject text primary key check (subject ~ '^(domain|definition|handler):.'),
  paused_at timestamptz not null,
  actor text not null,
  reason text not null
);

-- The housekeeping of an installation (partitions, later retention): due items like everything else, a handful of rows.
create table holdfast.chore (
  name text primary key,
  every interval not null check (every > interval '0'),
  due_at timestamptz,
  lease_epoch int not null default 0,
  leased_by text,
  leased_at timestamptz,
  last_write uuid,
  last_run_at timestamptz,
  last_error text,
  constraint chore_lease_is_whole check ((leased_by is null) = (leased_at is null) and (leased_by is null or due_at is not null))
);
insert into holdfast.chore (name, every, due_at)
values ('audit_partitions', interval '1 day', statement_timestamp());

-- When a topic was last notified, in milliseconds. Sequences, because they are the one thing in PostgreSQL that is
-- written outside the caller's transaction, at once visible to all, and never waited for (K-06). Topics share sixteen.
create sequence holdfast.wake_0;
create sequence holdfast.wake_1;
create sequence holdfast.wake_2;
create sequence holdfast.wake_3;
create sequence holdfast.wake_4;
create sequence holdfast.wake_5;
create sequence holdfast.wake_6;
create sequence holdfast.wake_7;
create sequence holdfast.wake_8;
create sequence holdfast.wake_9;
create sequence holdfast.wake_10;
create sequence holdfast.wake_11;
create sequence holdfast.wake_12;
create sequence holdfast.wake_13;
create sequence holdfast.wake_14;
create sequence holdfast.wake_15;
create table holdfast.wake_bucket (
  bucket int primary key,
  last_wake regclass not null
);
insert into holdfast.wake_bucket (bucket, last_wake)
select substring(sequence.relname from 'wake_(\d+)$')::int, sequence.oid
from pg_class sequence
where sequence.relkind = 'S'
  and sequence.relname ~ '^wake_\d+$'
  and sequence.relnamespace = (select relnamespace from pg_class where oid = (select tableoid from holdfast.clock));
