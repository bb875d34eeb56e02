-- release: 1
--
-- Workflows: declared saga graphs. What has been decided stands in rows of instances and their steps; a step that somebody
-- has to do is its own queue item, so that claiming, calling and recording it is three versions of one row.

-- A stored version never changes; instances refer to it, and handlers' services read it from here.
create table holdfast.workflow_definition (
  id int primary key generated always as identity,
  name text not null,
  version int not null check (version >= 1),
  hash text not null,
  body jsonb not null,
  -- How long a worker holds a step; the worker's own lease where it is null.
  lease_ms int,
  created_at timestamptz not null,
  unique (name, version)
);

-- Every decision about an instance raises its revision: two that were made on the same state cannot both be written.
create table holdfast.workflow (
  id uuid primary key,
  definition_id int not null,
  name text not null,
  version int not null,
  key text,
  status text not null
    check (status in ('PENDING', 'RUNNING', 'ROLLING_BACK', 'CANCELLING', 'COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED', 'DLQ')),
  revision int not null default 0,
  last_write uuid,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  ended_at timestamptz,
  input jsonb,
  input_notes jsonb,
  output jsonb,
  output_notes jsonb,
  failed_step text,
  failure jsonb,
  constraint workflow_end_has_a_time check ((status in ('COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED')) = (ended_at is not null))
) with (fillfactor = 60, toast_tuple_target = 256);
create unique index workflow_by_key on holdfast.workflow (name, key) where key is not null;
create index workflow_by_time on holdfast.workflow (name, created_at);
create index workflow_by_status on holdfast.workflow (status, name, created_at) where status <> 'COMPLETED';
create index workflow_by_end on holdfast.workflow (ended_at) where ended_at is not null;

-- The steps that have been reached, by their number in the definition; -1 is the start of one that has not begun.
create table holdfast.workflow_step (
  workflow_id uuid not null,
  number smallint not null,
  definition_id int not null,
  name text not null,
  status text not null
    check (status in ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'PAUSED', 'COMPENSATING', 'ROLLED_BACK', 'SKIPPED',
      'WAITING_DECISION', 'CONFIRMED', 'REJECTED')),
  -- What is queued: the handler of the step or of its compensation. Null where nobody has to do anything.
  handler text,
  compensates boolean not null default false,
  due_at timestamptz,
  -- Due, and in nobody's hand. Only these are in the index that claims go through in the order of `rank`.
  ready boolean not null default false,
  -- Since when it waits, with which priority and aging (points per second): fixed when it is queued (W-12).
  scheduled_at timestamptz,
  priority smallint,
  aging float4,
  -- When its priority reaches 100.
  rank timestamptz,
  lease_epoch int not null default 0,
  leased_by text,
  leased_at timestamptz,
  -- A worker has it, or had it and has not said what became of it.
  in_flight boolean not null default false,
  -- Whoever runs it is to stop.
  abort boolean not null default false,
  attempts int not null default 0,
  compensation_attempts int not null default 0,
  -- The how-many-eth step of its instance it was to end.
  ended_order int,
  side text check (side in ('next', 'else')),
  dlq boolean not null default false,
  reached_at timestamptz not null,
  started_at timestamptz,
  ended_at timestamptz,
  input jsonb,
  input_notes jsonb,
  output jsonb,
  output_notes jsonb,
  failure jsonb,
  primary key (workflow_id, number),
  constraint workflow_step_is_queued_whole check (
    (handler is null) = (due_at is null) and (handler is null) = (rank is null) and (due_at is not null or not ready)
  ),
  constraint workflow_step_lease_is_whole check (
    (leased_by is null) = (leased_at is null) and (leased_by is null or due_at is not null and not ready)
  )
) with (fillfactor = 60, toast_tuple_target = 256);
create index workflow_step_ready on holdfast.workflow_step (handler, rank, scheduled_at) where ready;
-- Delayed, or leased.
create index workflow_step_due on holdfast.workflow_step (handler, due_at) where not ready and due_at is not null;
create index workflow_step_waiting on holdfast.workflow_step (reached_at) where status = 'WAITING_DECISION';

-- Steps that failed for good in DLQ mode, and compensations that failed for good, until somebody requeues them.
create table holdfast.workflow_dead_letter (
  id uuid primary key,
  workflow_id uuid not null,
  number smallint not null,
  workflow_name text not null,
  workflow_version int not null,
  step text not null,
  step_type text not null,
  kind text not null check (kind in ('step', 'compensation')),
  input jsonb,
  input_notes jsonb,
  failure jsonb not null,
  fingerprint text not null,
  reason text not null,
  created_at timestamptz not null,
  unique (workflow_id, number)
);
create index workflow_dead_letter_by_time on holdfast.workflow_dead_letter (created_at);
create index workflow_dead_letter_by_fingerprint on holdfast.workflow_dead_letter (fingerprint, created_at);

-- What people decided (W-10); kept as long as the instance.
create table holdfast.workflow_decision (
  workflow_id uuid not null,
  step text not null,
  decision text not null check (decision in ('confirm', 'reject')),
  actor text not null,
  reason text not null,
  at timestamptz not null
);
create index workflow_decision_by_workflow on holdfast.workflow_decision (workflow_id, at);

-- Which handlers some worker has (W-04), told once a minute; and when somebody was last told of one that nobody has.
create table holdfast.workflow_handler (
  handler text primary key,
  seen_at timestamptz,
  missed_at timestamptz
);

insert into holdfast.chore (name, every, due_at)
values ('workflow_handlers', interval '1 minute', statement_timestamp());
