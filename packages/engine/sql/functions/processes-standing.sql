-- revision: 1
-- after: processes-write
--
-- What an operator can do with a process: its failed step, its failed compensations, its calls of unknown outcome, and the verbs that fit.
-- The operations of operators and the list of troubles read it. These functions only read. What must not break: what `process_can` names is
-- what the operations accept.

-- The displayed name of a call: `pay`, and `pay#2` if the name is used again.
create or replace function holdfast.call_id(p_name text, p_occurrence int)
returns text
language sql
immutable
as $$
  select p_name || case when p_occurrence > 1 then '#' || p_occurrence else '' end
$$;

create or replace function holdfast.process_is_unwinding(p_id uuid, p_generation int)
returns boolean
language sql
stable
as $$
  select exists (
    select from holdfast.process_history
    where process_id = p_id and generation = p_generation and kind = 'UNWIND'
  )
$$;

-- The calls of a process that failed with an unknown outcome (K-20), according to the last event of each. Only for a process in
-- troubleshooting, because a retry lets all other calls begin again.
create or replace function holdfast.unresolved_calls(p_id uuid, p_generation int)
returns table (name text, occurrence int, no_inquire boolean)
language sql
stable
as $$
  select last.name, last.occurrence, coalesce((last.detail ->> 'noInquire')::boolean, false)
  from (
    select distinct on (history.name, history.occurrence) history.name, history.occurrence, history.kind, status, detail
    from holdfast.process_history as history
    where process_id = p_id
      and generation = p_generation
      and kind in ('STEP', 'SIDE_EFFECT', 'RESOLVE')
    order by history.name, history.occurrence, seq desc
  ) as last
  where last.status = 'FAILED'
    and last.detail ->> 'outcome' = 'unknown'
    and not coalesce((last.detail ->> 'thrown')::boolean, false)
    and not coalesce((last.detail ->> 'afterEnd')::boolean, false)
$$;

-- The failed step of a process in troubleshooting, if it can be skipped: nothing has happened since its failure, and no compensation
-- runs. No row: the process waits for something else. Reads only the end of the history.
create or replace function holdfast.failed_step(p_id uuid, p_generation int)
returns table (name text, occurrence int)
language sql
stable
as $$
  select last.name, last.occurrence
  from (
    select history.seq, history.kind, history.name, history.occurrence
    from holdfast.process_history as history
    where process_id = p_id
      and generation = p_generation
      and status = 'FAILED'
      and not coalesce((detail ->> 'thrown')::boolean, false)
      and not coalesce((detail ->> 'afterEnd')::boolean, false)
    order by seq desc
    limit 1
  ) as last
  where last.kind in ('STEP', 'SIDE_EFFECT', 'TRANSACTION')
    and not exists (
      select from holdfast.process_history as later
      where later.process_id = p_id
        and later.generation = p_generation
        and later.seq > last.seq
        and (later.kind in ('UNWIND', 'RETRY') or later.name = last.name and later.occurrence = last.occurrence)
    )
$$;

-- The compensations of a process in troubleshooting that have failed, and that an operator can say were done by hand: those that were given
-- up since the last retry, and the one of a step-based process (`managed`) whose command needs an operator.
create or replace function holdfast.failed_compensations(p_id uuid, p_generation int)
returns table (seq int, name text, occurrence int, attempt int, detail jsonb, managed boolean)
language sql
stable
as $$
  select last.seq, last.name, last.occurrence, last.attempt, last.detail, last.detail ? 'startedId'
  from (
    select distinct on (history.name, history.occurrence)
      history.seq, history.name, history.occurrence, history.attempt, history.status, history.detail
    from holdfast.process_history as history
    where process_id = p_id and generation = p_generation and kind = 'COMPENSATION'
    order by history.name, history.occurrence, history.seq desc
  ) as last
  where last.status = 'FAILED'
      and not exists (
        select from holdfast.process_history as later
        where later.process_id = p_id and later.generation = p_generation and later.seq > last.seq and later.kind = 'RETRY'
      )
    or last.status = 'WAITING_RETRY'
      and last.detail ? 'startedId'
      and not last.detail ? 'reply'
      and last.detail -> 'error' ->> 'code' = 'COMMAND_IN_TROUBLESHOOTING'
$$;

-- The command because of which a step-based process is in troubleshooting: only its reply lets the process go on. Null if there is none.
create or replace function holdfast.troubled_command(p_id uuid, p_generation int)
returns text
language sql
stable
as $$
  select coalesce(
    (
      select command.domain || '/' || command.type || ' '
      from holdfast.command
      where command.command_id = (last.detail ->> 'startedId')::uuid and command.correlation_id = p_id
    ),
    ''
  ) || (last.detail ->> 'startedId')
  from (
    select history.status, history.detail
    from holdfast.process_history as history
    where process_id = p_id and generation = p_generation and kind not in ('RETRY', 'RESUME', 'UNWIND')
    order by history.seq desc
    limit 1
  ) as last
  where last.status = 'WAITING_RETRY'
    and not last.detail ? 'reply'
    and last.detail -> 'error' ->> 'code' = 'COMMAND_IN_TROUBLESHOOTING'
    and exists (select from holdfast.process_detail where id = p_id and model = 'STEP_BASED')
$$;

-- What an operator can do with a process in troubleshooting.
create or replace function holdfast.process_can(p_id uuid, p_generation int)
returns text[]
language sql
stable
as $$
  select array_remove(array[
    case when holdfast.troubled_command(p_id, p_generation) is null then 'retry' end,
    case when not unwinding or repairable then 'complete' end,
    'cancel',
    case when repairable then 'skip' end
  ], null)
  from (select holdfast.process_is_unwinding(p_id, p_generation) as unwinding) as compensation
  cross join lateral (
    select case
      when unwinding then exists (select from holdfast.failed_compensations(p_id, p_generation))
      else exists (select from holdfast.failed_step(p_id, p_generation))
    end as repairable
  ) as failed
$$;
