-- release: 1
--
-- The documents of workflows have whole words as their fields, so the functions that take them have new names
-- (functions/workflows-write.sql, functions/workflows-start.sql).
drop function if exists holdfast.write_workflows(jsonb);
drop function if exists holdfast.start_workflows(jsonb);
