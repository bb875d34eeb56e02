-- Scheduled payments are executed by a process that dispatch starts and names; it leaves its id here when it begins, in the
-- transaction that accepts the payment, so that answers from outside find it. Null for payments whose process has their id.
alter table payments.payment add column process_id uuid;
-- Until now the processes of scheduled payments had their ids too.
update payments.payment set process_id = id where execute_at is not null;
