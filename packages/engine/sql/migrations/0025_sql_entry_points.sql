-- release: 1
--
-- The functions for other languages have one shape now: send, start, respond, decide, schedule (functions/entry-points.sql).
drop function if exists holdfast.send_command(text, text, jsonb, uuid, uuid, text, int, interval, uuid, text);
drop function if exists holdfast.start_process(text, text, jsonb, uuid, text, timestamptz, timestamptz, jsonb, uuid);
drop function if exists holdfast.respond(text, text, text, text, jsonb, text);
drop function if exists holdfast.schedule_item(text, text, timestamptz, jsonb, text, int, boolean);
