-- The books (A-06): one query, one snapshot, true at any moment. Money booked = settled + unwound + in flight in every
-- currency, where "in flight" is counted from the payments and the rest from the ledger, which know nothing of each other;
-- every payment ends once; no service has had an effect twice, none is left for a payment that was not made.
with posting as (
  -- What each payment's postings did to the money in flight.
  select
    payment_id,
    count(*) filter (where kind = 'BOOK') as booked,
    count(*) filter (where kind = 'SETTLE') as settled,
    count(*) filter (where kind = 'UNWIND') as unwound,
    sum(amount) filter (where kind = 'BOOK') as booked_amount,
    sum(amount) as left_in_flight
  from payments.ledger_entry
  where account = 'in-flight'
  group by payment_id
),
credited as (
  select entry.payment_id, sum(entry.amount) as amount
  from payments.ledger_entry as entry
  join payments.payment on payment.id = entry.payment_id and payment.credit_account = entry.account
  where entry.kind = 'SETTLE'
  group by entry.payment_id
),
uneven as (
  select payment_id as id
  from payments.ledger_entry
  group by payment_id, kind, currency
  having sum(amount) <> 0
),
ending as (
  select payment_id, count(*) as times
  from payments.status_change
  where to_status in ('COMPLETE', 'FAILED', 'CANCELLED')
  group by payment_id
),
risk as (
  select payment_id, count(*) filter (where unwound_at is null) as active from payments.risk_booking group by payment_id
),
fx as (
  select
    payment_id,
    count(*) filter (where unwound_at is null) as active,
    sum(bought) filter (where unwound_at is null) as bought
  from payments.fx_contract
  group by payment_id
),
gateway as (
  select
    payment_id,
    count(*) filter (where recalled_at is null) as active,
    sum(amount) filter (where recalled_at is null) as amount
  from payments.gateway_submission
  group by payment_id
),
repeated as (
  select payment_id as id
  from payments.gateway_submission
  group by payment_id, idempotency_key
  having count(*) > 1
),
book as (
  select
    payment.id,
    payment.status,
    payment.debit_amount,
    payment.credit_amount,
    payment.debit_currency <> payment.credit_currency as crosses,
    payment.status in ('COMPLETE', 'FAILED', 'CANCELLED') as ended,
    coalesce(posting.booked, 0) as booked,
    coalesce(posting.settled, 0) as settled,
    coalesce(posting.unwound, 0) as unwound,
    posting.booked_amount,
    coalesce(posting.left_in_flight, 0) as left_in_flight,
    credited.amount as credited,
    coalesce(ending.times, 0) as ends,
    coalesce(risk.active, 0) as risks,
    coalesce(fx.active, 0) as contracts,
    fx.bought,
    coalesce(gateway.active, 0) as submissions,
    gateway.amount as submitted
  from payments.payment
  left join posting on posting.payment_id = payment.id
  left join credited on credited.payment_id = payment.id
  left join ending on ending.payment_id = payment.id
  left join risk on risk.payment_id = payment.id
  left join fx on fx.payment_id = payment.id
  left join gateway on gateway.payment_id = payment.id
),
fault as (
  select 'a posting does not sum to zero' as rule, id from uneven
  union all
  select 'a payment ended more than once, or without a trace', id from book where ends <> ended::int
  union all
  select 'the postings of a payment do not fit its status', id
  from book
  where case status
    when 'PROCESSING' then (booked, settled, unwound) <> (1, 0, 0)
    when 'COMPLETE' then (booked, settled, unwound) <> (1, 1, 0)
    when 'FAILED' then (booked, settled, unwound) not in ((1, 0, 1), (0, 0, 0))
    when 'CANCELLED' then (booked, settled, unwound) not in ((1, 0, 1), (0, 0, 0))
    else (booked, settled, unwound) <> (0, 0, 0)
  end
  union all
  select 'a payment was booked with another amount', id from book where booked_amount <> debit_amount
  union all
  select 'money in flight does not fit the status of its payment', id
  from book
  where left_in_flight <> case when status = 'PROCESSING' then debit_amount else 0 end
  union all
  select 'a payment was credited with another amount than it was submitted with', id
  from book
  where status = 'COMPLETE'
    and (
      credited is distinct from credit_amount
      or submitted is distinct from credit_amount
      or credit_amount is distinct from case when crosses then bought else debit_amount end
    )
  union all
  select 'risk is booked twice, or left behind, or missing', id
  from book
  where case when status = 'COMPLETE' then risks <> 1 when status = 'PROCESSING' then risks > 1 else risks > 0 end
  union all
  select 'currency is bought twice, or left behind, or missing', id
  from book
  where case
    when status = 'COMPLETE' then contracts <> crosses::int
    when status = 'PROCESSING' then contracts > crosses::int
    else contracts > 0
  end
  union all
  select 'a payment is submitted twice, or left with the gateway, or missing there', id
  from book
  where case
    when status = 'COMPLETE' then submissions <> 1
    when status = 'PROCESSING' then submissions > 1
    else submissions > 0
  end
  union all
  select 'the gateway was called twice for one submission', id from repeated
  union all
  select 'the ledger has entries of no payment', payment_id
  from payments.ledger_entry
  where not exists (select from payments.payment where payment.id = ledger_entry.payment_id)
),
moved as (
  select
    currency,
    sum(amount) filter (where kind = 'BOOK') as booked,
    -coalesce(sum(amount) filter (where kind = 'SETTLE'), 0) as settled,
    -coalesce(sum(amount) filter (where kind = 'UNWIND'), 0) as unwound
  from payments.ledger_entry
  where account = 'in-flight'
  group by currency
),
flying as (
  select debit_currency as currency, sum(debit_amount) as amount
  from payments.payment
  where status = 'PROCESSING'
  group by debit_currency
),
money as (
  select
    currency,
    coalesce(booked, 0) as booked,
    coalesce(settled, 0) as settled,
    coalesce(unwound, 0) as unwound,
    coalesce(flying.amount, 0) as in_flight,
    coalesce(booked, 0) - coalesce(settled, 0) - coalesce(unwound, 0) - coalesce(flying.amount, 0) as missing
  from moved
  full join flying using (currency)
)
select
  not exists (select from fault) and not exists (select from money where missing <> 0) as balanced,
  (select coalesce(jsonb_object_agg(status, n), '{}')
    from (select status, count(*) as n from payments.payment group by status) as by_status) as payments,
  (select coalesce(jsonb_agg(jsonb_build_object(
      'currency', currency, 'booked', booked::text, 'settled', settled::text, 'unwound', unwound::text,
      'inFlight', in_flight::text, 'missing', missing::text) order by currency), '[]')
    from money) as money,
  (select coalesce(jsonb_agg(jsonb_build_object('rule', rule, 'payments', n, 'examples', examples) order by rule), '[]')
    from (
      select rule, count(distinct id) as n, (array_agg(distinct id))[1:5] as examples from fault group by rule
    ) as by_rule) as faults
