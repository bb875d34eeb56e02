-- The payments application's own tables, beside Holdfast's in the same database. What moves money is written in one
-- transaction with the status of its payment, so that the books (sql/books.sql) balance in every snapshot.

create schema if not exists payments;

create table payments.account (
  number text primary key,
  holder text not null,
  currency text not null
);

-- Payments that were submitted together, and how the simulated world treats them.
create table payments.batch (
  id uuid primary key,
  name text not null,
  model text not null check (model in ('PROCESS_STEP', 'STEP_BASED')),
  seed text not null,
  behaviour jsonb not null,
  size int not null,
  created_at timestamptz not null default now()
);

-- `numeric` without a scale keeps the one it was given: 10.10 stays 10.10.
create table payments.payment (
  id uuid primary key,
  batch_id uuid,
  -- The place in its batch: what the simulated world rolls its dice by.
  ordinal int not null default 0,
  model text not null check (model in ('PROCESS_STEP', 'STEP_BASED')),
  status text not null
    check (status in ('SCHEDULED', 'ACCEPTED', 'PROCESSING', 'COMPLETE', 'FAILED', 'CANCELLED')),
  debit_account text not null references payments.account,
  debit_amount numeric not null check (debit_amount > 0),
  debit_currency text not null,
  credit_account text not null references payments.account,
  credit_currency text not null,
  -- Known when it is settled.
  credit_amount numeric check (credit_amount > 0),
  value_date date not null,
  cutoff_at timestamptz not null,
  execute_at timestamptz,
  idempotency_key text unique,
  request_hash text,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  constraint payment_has_two_sides check (debit_account <> credit_account),
  constraint payment_ended_is_over check ((ended_at is null) = (status in ('SCHEDULED', 'ACCEPTED', 'PROCESSING')))
) with (fillfactor = 70);
create index payment_by_batch on payments.payment (batch_id, status) where batch_id is not null;
create index payment_by_status on payments.payment (status, debit_currency);

-- Every change of a status, only ever added: that a payment ends once is read from here, not assumed.
create table payments.status_change (
  id bigint generated always as identity primary key,
  payment_id uuid not null,
  from_status text,
  to_status text not null,
  at timestamptz not null default now()
);
create index status_change_by_payment on payments.status_change (payment_id);

-- Double entry: the lines of one posting sum to zero in each currency. Accounts are customers', or our own: `in-flight`
-- and `fx-position`. Not unique by payment and kind: a second posting is for the books to find, not for an index to hide.
create table payments.ledger_entry (
  id bigint generated always as identity primary key,
  payment_id uuid not null,
  kind text not null check (kind in ('BOOK', 'SETTLE', 'UNWIND')),
  account text not null,
  currency text not null,
  amount numeric not null,
  at timestamptz not null default now()
);
create index ledger_entry_by_payment on payments.ledger_entry (payment_id, kind);

-- People decide on these.
create table payments.pending_approval (
  id uuid primary key default gen_random_uuid(),
  payment_id uuid not null unique,
  model text not null,
  status text not null default 'PENDING' check (status in ('PENDING', 'APPROVED', 'DECLINED')),
  requested_at timestamptz not null default now(),
  -- When the simulator looks at it; null: it is a person's.
  simulate_at timestamptz,
  resolved_by text,
  comment text,
  resolved_at timestamptz,
  constraint pending_approval_is_resolved check ((status = 'PENDING') = (resolved_at is null))
);
create index pending_approval_open on payments.pending_approval (requested_at) where status = 'PENDING';

create table payments.pending_network_response (
  id uuid primary key default gen_random_uuid(),
  payment_id uuid not null,
  model text not null,
  level text not null check (level in ('L1', 'L2', 'L3', 'L4')),
  status text not null default 'PENDING' check (status in ('PENDING', 'CONFIRMED', 'REJECTED')),
  requested_at timestamptz not null default now(),
  resolved_by text,
  comment text,
  resolved_at timestamptz,
  unique (payment_id, level),
  constraint pending_network_response_is_resolved check ((status = 'PENDING') = (resolved_at is null))
);
create index pending_network_response_open on payments.pending_network_response (requested_at) where status = 'PENDING';

-- Who is told of a scheduled payment that is being executed.
create table payments.notification (
  payment_id uuid not null,
  party text not null check (party in ('PAYER', 'PAYEE')),
  queued_at timestamptz not null default now(),
  sent_at timestamptz,
  primary key (payment_id, party)
);

-- What the simulated services keep. Every call is noted before anything else happens, so that repeated ones are seen;
-- effects are apart, because a call may fail after its effect, and a repeated call must not have another.
create table payments.service_call (
  id bigint generated always as identity primary key,
  service text not null,
  operation text not null,
  payment_id uuid not null,
  idempotency_key text not null,
  at timestamptz not null default now(),
  -- It had its effect; or nobody waits for it any more, and it will have none. Never both.
  effective_at timestamptz,
  void_at timestamptz,
  constraint service_call_is_one_or_the_other check (effective_at is null or void_at is null)
);
create index service_call_by_key on payments.service_call (idempotency_key, operation);
create index service_call_by_payment on payments.service_call (payment_id);

create table payments.risk_booking (
  reference text primary key,
  payment_id uuid not null,
  idempotency_key text not null unique,
  amount numeric not null,
  currency text not null,
  decision text not null check (decision in ('APPROVED', 'PENDING')),
  booked_at timestamptz not null default now(),
  unwound_at timestamptz
);
create index risk_booking_by_payment on payments.risk_booking (payment_id);

create table payments.fx_contract (
  contract_id bigint generated always as identity primary key,
  payment_id uuid not null,
  idempotency_key text not null unique,
  sold numeric not null,
  sold_currency text not null,
  bought numeric not null,
  bought_currency text not null,
  rate numeric not null,
  value_date date not null,
  booked_at timestamptz not null default now(),
  unwound_at timestamptz
);
create index fx_contract_by_payment on payments.fx_contract (payment_id);

-- The gateway is the service that does not recognise repetitions: called twice it pays twice. Hence no unique key here,
-- and `atMostOnce` there.
create table payments.gateway_submission (
  reference text primary key,
  payment_id uuid not null,
  idempotency_key text not null,
  amount numeric not null,
  currency text not null,
  submitted_at timestamptz not null default now(),
  recalled_at timestamptz,
  -- The network behind the gateway: which level it confirms next, and when; null: nothing more is to come by itself.
  next_level text check (next_level in ('L1', 'L2', 'L3', 'L4')),
  next_answer_at timestamptz
);
create index gateway_submission_by_payment on payments.gateway_submission (payment_id);
create index gateway_submission_by_key on payments.gateway_submission (idempotency_key);
create index gateway_submission_due on payments.gateway_submission (next_answer_at) where next_answer_at is not null;
