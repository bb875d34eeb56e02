-- release: 1
--
-- Retrying dead letters is an operation on items like the others (functions/dispatch-operate.sql).
drop function if exists holdfast.requeue_dead_letters(text, text[], text, int, timestamptz, text, text);
