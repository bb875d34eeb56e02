-- release: 1
--
-- Heartbeats, releases and ages are made for all tables and all queues alike (functions/leases.sql, functions/commands-lease.sql).
drop function if exists holdfast.oldest_reply_seconds(text);
drop function if exists holdfast.make_queue_function(text, text, text);
