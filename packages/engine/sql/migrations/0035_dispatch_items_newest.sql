-- release: 1
-- online
--
-- The index of lists of items, newest first, is partial: only a query that says `seq > 0` can use it. The planner, without statistics of a
-- young table, otherwise takes it for statements that name a type and keys, and reads all items of the type. All items have a seq above 0.
drop index concurrently if exists holdfast.dispatch_item_by_age;
create index concurrently if not exists dispatch_item_newest on holdfast.dispatch_item (item_type, created_at, seq) where seq > 0;
