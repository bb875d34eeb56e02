-- release: 1
-- online
--
-- Lists of items are newest first, type by type. The time of scheduling never changes, so the end of an execution stays an
-- update within the page (HOT).
create index concurrently if not exists dispatch_item_by_age on holdfast.dispatch_item (item_type, created_at, seq);
