-- release: 1
--
-- The key that a command was sent with. Its id is derived from it (holdfast.keyed_id), so the primary key makes it unique.
alter table holdfast.command add column key text;
