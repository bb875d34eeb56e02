-- The example's own model: invoices to be paid. Like all durable work it has a due_at; like every table of the
-- example it is in the schema that the example opened Holdfast with.
create table if not exists holdfast.invoice (
  id uuid primary key,
  number text not null,
  due_at timestamptz,
  lease_epoch int not null default 0,
  leased_by text,
  leased_at timestamptz,
  paid_by text
);
create index if not exists invoice_due on holdfast.invoice (due_at) where due_at is not null;

-- The bank's table, which shows every call: it books a payment once per idempotency key, however often it is called.
create table if not exists holdfast.bank_call (
  called_at timestamptz not null default statement_timestamp(),
  idempotency_key uuid not null,
  worker text not null
);
create table if not exists holdfast.bank_booking (
  idempotency_key uuid primary key
);
