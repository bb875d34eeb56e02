-- release: 1
--
-- Commands. The hot row of a command is its PGMQ message (`vt` is its due_at, `read_ct` its epoch); these tables say
-- what became of it.

-- One row per command, written when it is sent and when an attempt ends. `IN_PROGRESS` is not stored: a command is in
-- progress while its message has been read more often than attempts have ended. No index mentions a column that the
-- end of a command changes, so that this update stays within its page (HOT).
create table holdfast.command (
  command_id uuid not null,
  domain text not null,
  type text not null,
  status text not null default 'PENDING'
    check (status in ('PENDING', 'COMPLETED', 'FAILED', 'CANCELLED', 'IN_TROUBLESHOOTING_QUEUE')),
  attempts int not null default 0,
  max_attempts int check (max_attempts >= 1),
  msg_id bigint,
  correlation_id uuid,
  reply_to text,
  batch_id uuid,
  version int,
  created_at timestamptz not null,
  run_at timestamptz,
  updated_at timestamptz not null,
  last_write uuid,
  data jsonb,
  notes jsonb,
  result jsonb,
  result_notes jsonb,
  error_kind text,
  error_code text,
  error_message text,
  primary key (command_id, domain)
-- Half of each page is left for the one update that ends a command.
) with (fillfactor = 50);
-- By time first: with the domain first, the planner would look commands up by their domain while the table is young.
create index command_by_time on holdfast.command (created_at, domain);
create index command_by_correlation on holdfast.command (correlation_id) where correlation_id is not null;
create index command_by_batch on holdfast.command (batch_id) where batch_id is not null;

-- What is in troubleshooting, apart from the many that are not, so that listing it needs no walk through all commands.
create table holdfast.command_trouble (
  command_id uuid not null,
  domain text not null,
  type text not null,
  since timestamptz not null,
  error_kind text not null,
  error_code text not null,
  error_message text not null,
  fingerprint text not null,
  batch_id uuid,
  primary key (command_id, domain)
);
create index command_trouble_by_type on holdfast.command_trouble (domain, type, since);
create index command_trouble_by_fingerprint on holdfast.command_trouble (fingerprint, since);
create index command_trouble_by_batch on holdfast.command_trouble (batch_id) where batch_id is not null;

-- Which queue a domain's commands are in, and which types have lately had a worker.
create table holdfast.command_queue (
  domain text primary key,
  queue text not null unique
);
create table holdfast.command_handler (
  domain text not null,
  type text not null,
  seen_at timestamptz not null,
  primary key (domain, type)
);

create table holdfast.batch (
  batch_id uuid primary key,
  domain text not null,
  name text,
  data jsonb,
  notes jsonb,
  on_complete jsonb,
  sealed boolean not null,
  status text not null default 'PENDING'
    check (status in ('PENDING', 'IN_PROGRESS', 'COMPLETED', 'COMPLETED_WITH_FAILURES')),
  created_at timestamptz not null,
  started_at timestamptz,
  completed_at timestamptz,
  total int,
  completed int,
  failed int,
  cancelled int,
  constraint batch_is_counted_when_closed check ((completed_at is null) = (total is null))
);
create index batch_by_time on holdfast.batch (domain, created_at);

-- The items of open batches that have not ended: whether a batch can close is one look into this index.
create table holdfast.batch_open (
  batch_id uuid not null,
  command_id uuid not null,
  domain text not null,
  primary key (batch_id, command_id, domain)
);

-- What happened to a batch's items, one row per batch and flush: counts are sums, and no row is written twice. Each row
-- is due at once; whoever takes it looks, in a snapshot younger than the row, whether the batch can close.
create table holdfast.batch_tally (
  tally_id bigint generated always as identity primary key,
  batch_id uuid not null,
  added int not null default 0,
  completed int not null default 0,
  failed int not null default 0,
  cancelled int not null default 0,
  due_at timestamptz
);
create index batch_tally_by_batch on holdfast.batch_tally (batch_id);
create index batch_tally_due on holdfast.batch_tally (due_at) where due_at is not null;

-- Looks every minute for messages whose type no worker handles.
insert into holdfast.chore (name, every, due_at)
values ('command_sweep', interval '1 minute', statement_timestamp());
