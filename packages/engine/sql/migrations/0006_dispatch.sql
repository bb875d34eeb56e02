-- release: 1
--
-- Dispatch: scheduled work that is released at a rate. An item waits in a narrow row, its context apart from it; an
-- execution is made when it is released, not before. No foreign keys: a batch of 500 would lock 500 rows of each table
-- that it mentions.

-- One row per item type; may be changed by plain SQL at any time, and the next cycle goes by what it says. A trigger
-- (functions/dispatch-config.sql) refuses the same values in whole sentences, and carries the kill switch out.
create table holdfast.dispatch_config (
  item_type text collate "C" primary key check (item_type ~ '^[A-Za-z0-9_-]{1,100}$'),
  enabled boolean not null default true,
  batch_size int not null default 500 check (batch_size between 1 and 100000),
  -- 0: batch after batch for as long as there is something due.
  dispatch_interval_secs float8 not null default 5 check (dispatch_interval_secs between 0 and 86400),
  jitter_window_ms int not null default 4000 check (jitter_window_ms between 0 and 86400000),
  -- How far ahead of their time items may be handed over, with a start delay that waits for it.
  pre_start_buffer_mins float8 not null default 0 check (pre_start_buffer_mins between 0 and 1440),
  max_dispatch_retries int not null default 5 check (max_dispatch_retries between 1 and 1000),
  stale_claim_threshold_mins float8 not null default 2 check (stale_claim_threshold_mins between 0.001 and 1440),
  max_stale_recovery_per_cycle int not null default 100 check (max_stale_recovery_per_cycle between 1 and 10000),
  -- How many batches may have been released to our own engine without having begun; null: any number.
  max_batches_ahead int default 4 check (max_batches_ahead between 1 and 100000),
  -- What is started instead of what the definition says.
  exec_workflow_type text check (length(exec_workflow_type) between 1 and 300),
  exec_task_queue text check (length(exec_task_queue) between 1 and 300),
  rate_limit_key text collate "C" check (length(rate_limit_key) between 1 and 200),
  -- Which engine executes it, as the definition says: what exec_workflow_type may name depends on it.
  engine text not null check (engine in ('PROCESS', 'WORKFLOW', 'REMOTE')),
  created_at timestamptz not null,
  updated_at timestamptz not null
);

-- The cycle of an item type: the one law on one row. Whoever has the lease runs it, so that cycles never overlap.
create table holdfast.dispatch_cycle (
  item_type text collate "C" primary key,
  due_at timestamptz,
  lease_epoch int not null default 0,
  leased_by text,
  leased_at timestamptz,
  last_run_at timestamptz,
  last_error text,
  -- The definitions that its executions are of; the kill switch looks for them there.
  exec_types text[] not null default '{}',
  -- When the oldest execution was made that has not begun: counting begins there.
  ahead_since timestamptz,
  constraint dispatch_cycle_lease_is_whole check ((leased_by is null) = (leased_at is null) and (leased_by is null or due_at is not null))
) with (fillfactor = 20);

-- The queue row. `due_at` is there while an item is READY, `check_at` while somebody has to look what became of it at a
-- remote target. No index mentions the status, so that the end of an execution is an update within the page (HOT).
create table holdfast.dispatch_item (
  item_type text collate "C" not null,
  item_id text collate "C" not null check (length(item_id) between 1 and 200),
  -- In the order of scheduling; among a million of the same instant it is what a claim goes on from.
  seq bigint generated always as identity,
  status text not null default 'READY'
    check (status in ('READY', 'CLAIMED', 'DISPATCHED', 'COMPLETED', 'FAILED', 'DEAD_LETTER')),
  exec_time timestamptz not null,
  due_at timestamptz,
  check_at timestamptz,
  retry_count int not null default 0,
  -- Executions that ended in failure: each gets a new execution id, a start that is tried again does not (D-07).
  failed_executions int not null default 0,
  context_hash bigint not null,
  init_workflow_id text,
  batch_id uuid,
  execution_id text,
  claimed_at timestamptz,
  dispatched_at timestamptz,
  completed_at timestamptz,
  last_error text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (item_type, item_id),
  constraint dispatch_item_is_due_when_ready check ((status = 'READY') = (due_at is not null)),
  constraint dispatch_item_is_checked_in_flight check (check_at is null or status in ('CLAIMED', 'DISPATCHED'))
) with (fillfactor = 85);
create index dispatch_item_due on holdfast.dispatch_item (item_type, due_at, seq) where due_at is not null;
create index dispatch_item_check on holdfast.dispatch_item (item_type, check_at) where check_at is not null;

-- What the execution is given, as phase A left it; gone when the item has ended.
create table holdfast.dispatch_context (
  item_type text collate "C" not null,
  item_id text collate "C" not null,
  context jsonb not null,
  notes jsonb,
  context_version int not null,
  -- False: it came through SQL, and whoever executes it parses it first.
  checked boolean not null,
  -- What the target wants to know of the start besides: the deadline of a process.
  details jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (item_type, item_id)
);

-- What was given up, apart from the many that were not.
create table holdfast.dispatch_dead_letter (
  item_type text collate "C" not null,
  item_id text collate "C" not null,
  since timestamptz not null,
  error_code text not null,
  error_message text not null,
  fingerprint text not null,
  -- A dispatcher has added it to its metrics.
  counted boolean not null default false,
  primary key (item_type, item_id)
);
create index dispatch_dead_letter_by_time on holdfast.dispatch_dead_letter (item_type, since);
create index dispatch_dead_letter_by_fingerprint on holdfast.dispatch_dead_letter (fingerprint, since);
create index dispatch_dead_letter_new on holdfast.dispatch_dead_letter (item_type) where not counted;

-- Which item a process executes; null for all that nobody dispatched. The type stands on the hot row, where the kill
-- switch and the count of what has not begun look for it.
alter table holdfast.process add column dispatch_type text collate "C";
alter table holdfast.process_detail add column dispatch_item text collate "C";
alter table holdfast.workflow add column dispatch_type text collate "C";
alter table holdfast.workflow add column dispatch_item text collate "C";
