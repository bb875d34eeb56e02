-- release: 1
--
-- Processes: sequential code that survives anything, and step-based managers. Scheduling is a narrow row; what a person
-- wants to know of a process stands beside it; what happened is rows of history that are only ever added.

-- The hot row. `EXECUTING` is not stored: a process is executing while it is leased.
create table holdfast.process (
  id uuid primary key,
  type text not null,
  version int not null,
  status text not null
    check (status in ('PENDING', 'WAITING_FOR_ASYNC', 'WAITING_FOR_RETRY', 'WAITING_FOR_REPLY', 'WAITING_FOR_TSQ',
      'COMPENSATING', 'COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED')),
  due_at timestamptz,
  lease_epoch int not null default 0,
  leased_by text,
  leased_at timestamptz,
  last_write uuid,
  -- Here too, so that what rests is listed newest first without a look at anything else.
  created_at timestamptz not null,
  -- The epoch of the last rest: claims since then that recorded nothing are crashes.
  rested_epoch int not null default 0,
  generation int not null default 1,
  -- The number of the last response. Here, because the statement that would pause an execution compares it.
  responses int not null default 0,
  cancel text check (cancel in ('PLAIN', 'COMPENSATE')),
  deadline_at timestamptz,
  mismatch_since timestamptz,
  -- Due, and over the limit of its definition: waits without a due_at for a free slot.
  queued_at timestamptz,
  constraint process_lease_is_whole check ((leased_by is null) = (leased_at is null) and (leased_by is null or due_at is not null)),
  constraint process_ended_is_over check (
    status not in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED') or (due_at is null and queued_at is null and leased_by is null)
  )
) with (fillfactor = 50);
create index process_due on holdfast.process (type, version, due_at) where due_at is not null;
create index process_queued on holdfast.process (type, queued_at) where queued_at is not null;
-- What rests, but for the many that have completed: a process that is started, executed and done at once is never in it.
create index process_by_status on holdfast.process (status, type, created_at) where leased_at is null and status <> 'COMPLETED';

-- What readers want to know; written when a process starts, rests and ends.
create table holdfast.process_detail (
  id uuid primary key,
  type text not null,
  model text not null check (model in ('PROCESS_STEP', 'STEP_BASED')),
  key text,
  parent_id uuid,
  parent_call text,
  batch_id uuid,
  attributes jsonb,
  created_at timestamptz not null,
  -- When this generation was to begin: what the process's own clock starts from.
  start_at timestamptz not null,
  updated_at timestamptz not null,
  ended_at timestamptz,
  -- What this generation of the process began with, and the last response that was in it.
  state jsonb,
  state_notes jsonb,
  state_responses int not null default 0,
  -- False: it came through SQL, and the first execution parses it before any code sees it.
  state_checked boolean not null default true,
  -- Responses in that state which no event has taken yet.
  state_unmet jsonb,
  -- The state as it was at the last rest, and the last response that is in it; null until then.
  projection jsonb,
  projection_notes jsonb,
  projection_responses int,
  result jsonb,
  result_notes jsonb,
  waiting_for text,
  wait_timeout_at timestamptz,
  next_retry_at timestamptz,
  error_kind text,
  error_code text,
  error_message text
) with (fillfactor = 60);
create unique index process_by_key on holdfast.process_detail (type, key) where key is not null;
-- By type first: a list of one type reads nothing else, and a list of all goes through the few types there are.
create index process_by_time on holdfast.process_detail (type, created_at);
create index process_by_parent on holdfast.process_detail (parent_id) where parent_id is not null;
create index process_by_batch on holdfast.process_detail (batch_id, created_at) where batch_id is not null;
create index process_by_attributes on holdfast.process_detail using gin (attributes jsonb_path_ops) where attributes is not null;

-- What happened, in the order in which the process met it. Unique by sequence, and each row names the epoch that wrote it.
create table holdfast.process_history (
  process_id uuid not null,
  generation int not null,
  seq int not null,
  epoch int not null,
  at timestamptz not null,
  kind text not null
    check (kind in ('STEP', 'TRANSACTION', 'SIDE_EFFECT', 'WAIT', 'EVENT', 'SLEEP', 'COMMAND', 'CHILD', 'COMPENSATION',
      'UNWIND', 'RETRY', 'RESUME')),
  name text not null,
  occurrence int not null,
  status text not null check (status in ('STARTED', 'COMPLETED', 'FAILED', 'WAITING_RETRY')),
  attempt int,
  -- The last response that was in the state from here on, where that changed.
  seen int,
  -- When the next attempt is due, or the wait times out.
  next_at timestamptz,
  result jsonb,
  notes jsonb,
  detail jsonb,
  primary key (process_id, generation, seq)
);

create table holdfast.process_response (
  process_id uuid not null,
  number int not null,
  name text not null,
  response_id text not null,
  at timestamptz not null,
  data jsonb,
  notes jsonb,
  primary key (process_id, number)
);
create unique index process_response_once on holdfast.process_response (process_id, response_id);

-- Responses on their way: from callers' transactions, other languages, ended children. Due at once; a worker that has
-- the definition checks them and hands them over.
create table holdfast.process_inbox (
  id uuid primary key,
  type text not null,
  process_ref text not null,
  name text not null,
  response_id text not null,
  data jsonb,
  notes jsonb,
  -- Its data was checked against its schema when it entered.
  checked boolean not null,
  created_at timestamptz not null,
  due_at timestamptz,
  lease_epoch int not null default 0,
  leased_by text,
  leased_at timestamptz,
  constraint process_inbox_lease_is_whole check ((leased_by is null) = (leased_at is null))
) with (fillfactor = 70);
create index process_inbox_due on holdfast.process_inbox (type, due_at) where due_at is not null;

-- What is in troubleshooting, apart from the many that are not.
create table holdfast.process_trouble (
  id uuid primary key,
  type text not null,
  since timestamptz not null,
  error_kind text not null,
  error_code text not null,
  error_message text not null,
  fingerprint text not null,
  batch_id uuid
);
create index process_trouble_by_type on holdfast.process_trouble (type, since);
create index process_trouble_by_fingerprint on holdfast.process_trouble (fingerprint, since);
create index process_trouble_by_batch on holdfast.process_trouble (batch_id) where batch_id is not null;

-- Who executes among the definitions that have a limit across all workers.
create table holdfast.process_slot (
  process_id uuid primary key,
  type text not null
);
create index process_slot_by_type on holdfast.process_slot (type);

-- What operators have set for a definition without touching its code; what is null is as the code says.
create table holdfast.process_setting (
  type text primary key,
  wait_timeout_ms bigint check (wait_timeout_ms > 0),
  deadline_action text check (deadline_action in ('TSQ', 'COMPENSATE', 'FAIL')),
  concurrency int check (concurrency > 0),
  lease_ms int check (lease_ms >= 100),
  poll_ms int check (poll_ms >= 10),
  updated_at timestamptz not null
);

-- Which definitions have lately had a worker. Starts through SQL take the newest version; the longest lease bounds the
-- look for what is executing.
create table holdfast.process_definition (
  type text not null,
  version int not null,
  lease_ms int not null,
  seen_at timestamptz not null,
  primary key (type, version)
);
