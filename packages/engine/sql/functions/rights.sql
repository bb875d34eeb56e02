-- revision: 4
-- after: kernel, commands-send
--
-- The rights of a role that only runs Holdfast (K-27): docs/operations/rights.md. The owner of the schema calls it for each
-- role, and again after each migration. What must not break: such a role can neither change nor remove audit rows, move the
-- test clock, or change the schema.

-- Grants a role what senders and workers need. The owner of the schema calls it once for each role, and again after each migration.
create or replace function holdfast.grant_runtime(role_name text)
returns void
language plpgsql
as $$
declare
  v_schema text := holdfast.own_schema();
  v_table record;
begin
  execute format('grant usage on schema %s to %I', v_schema, role_name);
  execute format('grant execute on all functions in schema %s to %I', v_schema, role_name);
  -- The sequences of wake-ups are set, not only read.
  execute format('grant usage, select, update on all sequences in schema %s to %I', v_schema, role_name);
  for v_table in
    select relname, relkind, oid::regclass as name
    from pg_class
    where relnamespace = v_schema::regnamespace
      and relkind in ('r', 'p', 'v')
      -- Audit rows are written and read through the parent.
      and not relispartition
  loop
    execute format('revoke all on table %s from %I', v_table.name, role_name);
    execute format(
      'grant %s on table %s to %I',
      case
        when v_table.relname in ('clock', 'migration', 'function_file') or v_table.relkind = 'v' then 'select'
        when v_table.relname = 'audit' then 'select, insert'
        else 'select, insert, update, delete'
      end,
      v_table.name, role_name
    );
  end loop;
  -- Queues are created on first use, each with a table of its own.
  execute format('grant usage, create on schema pgmq to %I', role_name);
  execute format('grant execute on all functions in schema pgmq to %I', role_name);
  execute format('grant select, insert, update, delete on all tables in schema pgmq to %I', role_name);
  execute format('grant usage, select, update on all sequences in schema pgmq to %I', role_name);
end
$$;

revoke execute on function holdfast.grant_runtime(text) from public;
