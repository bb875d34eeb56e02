-- release: 1
--
-- What is known of the effect of a command that has not completed (K-19).

-- `unknown` from the first call on whose outcome nobody knows, until a later one completes, `inquire` or a person says that
-- nothing was done. Null: it was never called, or was refused each time. Written with the end of an attempt.
alter table holdfast.command add column effect text;
alter table holdfast.command add constraint command_effect_is_known check (effect = 'unknown') not valid;

-- Of what waits for a person already nothing better is known than that it was called.
update holdfast.command
set effect = 'unknown'
from holdfast.command_trouble as trouble
where command.command_id = trouble.command_id and command.domain = trouble.domain and command.attempts > 0;

-- Told by the column now; nothing calls it any more.
drop function if exists holdfast.command_was_called(uuid, int);
