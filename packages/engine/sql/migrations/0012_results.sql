-- release: 1
--
-- Who waits for ends (K-22): a row per model, renewed while somebody waits. Ends are notified only while it holds, so that
-- nobody pays for notifications that nobody hears.

create table holdfast.result_wait (
  model text primary key,
  until timestamptz not null
) with (fillfactor = 10);
