-- release: 1
--
-- Dispatch under operators: how many items have which status without a look at them, and a window that stops by itself.

-- How many items of a type have which status and, of those that are READY, in which minute they fall due. Each statement that
-- changes items adds its differences (functions/dispatch-tally.sql), so that no two of them wait for one counter; what counts
-- is the sum. A chore adds them up now and then.
create table holdfast.dispatch_tally (
  item_type text collate "C" not null,
  status text not null,
  minute timestamptz,
  count bigint not null
);
create index dispatch_tally_by_type on holdfast.dispatch_tally (item_type, status);
insert into holdfast.chore (name, every, due_at) values ('dispatch_tallies', interval '10 seconds', statement_timestamp());

-- After so many items in a row that could not begin, the window stops and waits for an operator (D-16); null: it never does.
alter table holdfast.dispatch_config add column trip_after int default 1000 check (trip_after between 1 and 1000000);
alter table holdfast.dispatch_cycle
  add column failures_in_row int not null default 0,
  add column tripped_at timestamptz,
  add column trip_reason text;
