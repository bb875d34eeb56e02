-- release: 1
--
-- The rate of dispatch holds when executions begin, not only when they are released (D-14).

-- Of a process that was dispatched: it has not begun while this is its epoch and nobody leases it. Null for all that nobody
-- dispatched. A claim raises the epoch; a worker that gives back what it has not begun raises this too.
alter table holdfast.process add column unbegun_epoch int;
update holdfast.process set unbegun_epoch = 0 where dispatch_type is not null and lease_epoch = 0;

-- Until when executions that came too late for their start have been given new ones, where no rate limit keeps count of that.
create table holdfast.dispatch_pace (
  item_type text collate "C" primary key,
  until timestamptz not null
) with (fillfactor = 50);
