-- release: 1
--
-- What reading foreign messages no longer uses: `command_ids_in` also looks at the domain that a message names.
drop function if exists holdfast.command_ids_of(jsonb[]);
