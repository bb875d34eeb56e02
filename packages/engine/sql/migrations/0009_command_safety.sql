-- release: 1
--
-- Commands that are neither lost nor repeated blindly (K-05, K-19, K-20), and what foreign clients may do (K-27).

-- The client's mark on a send with an id that the caller chose. The first update of a command keeps it, so that a send
-- whose answer was lost recognises its command also after that has ended. An id that the client made needs no mark.
alter table holdfast.command add column send_token uuid;

-- Set while nobody knows whether the last call of a handler that must not be called twice had its effect: `possible`
-- where the handler can inquire, `impossible` where only a person can tell.
alter table holdfast.command add column inquiry text;
alter table holdfast.command add constraint command_inquiry_is_known
  check (inquiry in ('possible', 'impossible')) not valid;

-- The client's mark on a batch, for the same reason; and the sums of the tallies that were already looked at, so that
-- each look costs as much as what is new.
alter table holdfast.batch
  add column create_token uuid,
  add column tallied_total int not null default 0,
  add column tallied_completed int not null default 0,
  add column tallied_failed int not null default 0,
  add column tallied_cancelled int not null default 0;

-- The queues that a foreign client's message may name in `reply_to`, besides `<domain>__replies`.
create table holdfast.reply_queue (
  domain text not null,
  queue text not null,
  primary key (domain, queue)
);

-- What SQL has to know of the installation. `payload_bytes`: the most that one value may take as JSON.
create table holdfast.setting (
  name text primary key,
  value jsonb not null
);
