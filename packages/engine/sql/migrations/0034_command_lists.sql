-- release: 1
-- online
--
-- Lists of commands are newest first, whatever they are narrowed to (functions/commands-find.sql). The index by type replaces the
-- one by time, so that sending writes no more than before: a list without a type reads the newest of each type. Its collation
-- is not that of the columns, so that no statement which looks a command up by domain and id is planned with it while the
-- table is young.
create index concurrently if not exists command_by_type
  on holdfast.command (domain collate "C", type collate "C", created_at);
create index concurrently if not exists command_by_batch_and_time
  on holdfast.command (batch_id, created_at) where batch_id is not null;
create index concurrently if not exists command_by_key on holdfast.command (key) where key is not null;
drop index concurrently if exists holdfast.command_by_time;
drop index concurrently if exists holdfast.command_by_batch;
