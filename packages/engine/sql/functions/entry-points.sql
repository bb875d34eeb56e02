-- revision: 5
-- after: entry-options, commands-send, processes-start, processes-inbox, workflows-start, dispatch-schedule
--
-- The public functions for programs in other languages, called in their own transactions: docs/reference/sql.md. Each takes domain and
-- type, the payload, and its options as a JSON object with the names of the TypeScript API. They only insert, so they wait for no other
-- transaction (K-15); the worker that executes the work checks its payload against the schema. What must not break: a name that no
-- worker has ever registered, an unknown option and a payload over the size limit are refused here, because the caller would otherwise
-- wait for ever. The signatures are public: a changed one gets a new name.

-- Sends a command; returns its id. A `key` makes it idempotent: the id is derived from the key, and a command that exists already is not
-- changed.
create or replace function holdfast.send(domain text, type text, data jsonb, options jsonb default '{}')
returns uuid
language plpgsql
as $$
declare
  v_key text := holdfast.option_of('send', options, 'key', 'key');
  v_given uuid := holdfast.option_of('send', options, 'id', 'id');
  v_reply_to text := holdfast.option_of('send', options, 'replyTo', 'text');
  v_batch uuid := holdfast.option_of('send', options, 'batch', 'id');
  v_exists text := coalesce(holdfast.option_of('send', options, 'ifExists', 'text'), 'refuse');
  v_id uuid := coalesce(v_given, holdfast.keyed_id('command', domain, type, v_key), gen_random_uuid());
  v_queue text := (select queue from holdfast.command_queue where command_queue.domain = send.domain);
  v_outcome text;
begin
  perform holdfast.check_options('send', options, array[
    'id', 'key', 'correlationId', 'replyTo', 'retry', 'delay', 'startAt', 'batch', 'ifExists'
  ]);
  perform holdfast.check_apart('send', options, array['id', 'key']);
  perform holdfast.check_apart('send', options, array['delay', 'startAt']);
  if v_exists not in ('refuse', 'ignore') then
    perform holdfast.refuse_option('send', 'ifExists', 'must be refuse or ignore, not ' || v_exists);
  end if;
  if v_queue is null or not exists (
    select from holdfast.worker_definition as known
    where known.model = 'commands' and known.name = send.domain || '/' || send.type
  ) then
    perform holdfast.refuse_name('command', domain, type, 'a worker that has a handler for it');
  end if;
  perform holdfast.check_payload('the data of the command', data);
  select refused.outcome into v_outcome
  from holdfast.send_commands(jsonb_build_array(jsonb_build_object('queue', v_queue, 'domain', domain, 'commands',
    jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
      'type', type, 'command_id', v_id, 'correlation_id', holdfast.option_of('send', options, 'correlationId', 'id'),
      'reply_to', v_reply_to, 'max_attempts', holdfast.option_of('send', options, 'retry', 'retry'),
      'delay_ms', holdfast.option_of('send', options, 'delay', 'duration')::float8,
      'run_at', holdfast.option_of('send', options, 'startAt', 'time'), 'batch_id', v_batch, 'token', gen_random_uuid(),
      'key', v_key
    )) || jsonb_build_object('data', data))
  ))) as refused;
  case v_outcome
    when 'queue gone' then
      raise exception 'the queue % of domain % does not exist', v_queue, domain using errcode = 'undefined_table';
    when 'reply queue gone' then
      raise exception 'the reply queue % does not exist', v_reply_to using errcode = 'undefined_table';
    when 'batch closed' then
      raise exception 'the batch % does not exist or takes no more commands', v_batch using errcode = 'invalid_parameter_value';
    when 'duplicate' then
      if v_given is not null and v_exists = 'refuse' then
        raise exception 'HF_DUPLICATE_COMMAND: % exists in domain %', v_id, domain
          using errcode = 'unique_violation', hint = 'Give a `key`, or the option "ifExists": "ignore", to send it once.';
      end if;
    else
  end case;
  return v_id;
end
$$;

-- Starts a process or a workflow instance; returns its id. If one with this id or key exists already, it returns that one's id. A worker
-- executes it after the commit.
create or replace function holdfast.start(domain text, type text, input jsonb, options jsonb default '{}')
returns uuid
language plpgsql
as $$
declare
  v_name text := holdfast.full_name(domain, type);
  v_version int := holdfast.newest_definition(v_name);
begin
  if input is null then
    raise exception 'the input must be JSON, not null' using errcode = 'invalid_parameter_value';
  end if;
  perform holdfast.check_apart('start', options, array['delay', 'startAt']);
  if v_version is not null then
    return holdfast.start_process_from_sql(v_name, v_version, input, options);
  end if;
  if exists (select from holdfast.workflow_definition where name = v_name) then
    return holdfast.start_workflow_from_sql(v_name, input, options);
  end if;
  perform holdfast.refuse_name('process or workflow', domain, type, 'a worker that has its definition');
end
$$;

create or replace function holdfast.start_process_from_sql(p_name text, p_version int, p_input jsonb, options jsonb)
returns uuid
language plpgsql
as $$
declare
  v_id uuid := coalesce(holdfast.option_of('start', options, 'id', 'id')::uuid, gen_random_uuid());
  v_batch uuid := holdfast.option_of('start', options, 'batch', 'id');
  v_attributes jsonb := nullif(options -> 'attributes', 'null');
  v_outcome json;
begin
  perform holdfast.check_options('start', options, array[
    'id', 'key', 'startAt', 'delay', 'deadline', 'attributes', 'batch'
  ]);
  perform holdfast.check_payload('the state of the process', p_input);
  perform holdfast.check_payload('the attributes of the process', v_attributes);
  -- A flat object, as in the TypeScript API: nested values could be neither shown nor searched.
  if jsonb_typeof(v_attributes) <> 'object'
    or v_attributes @? 'strict $.* ? (@.type() != "string" && @.type() != "number" && @.type() != "boolean")'
  then
    perform holdfast.refuse_option('start', 'attributes', 'must be an object of texts, numbers and booleans');
  end if;
  v_outcome := holdfast.start_processes(jsonb_build_array(
    jsonb_build_object(
      'id', v_id, 'type', p_name, 'model', 'PROCESS_STEP', 'version', p_version,
      'key', holdfast.option_of('start', options, 'key', 'key'), 'token', gen_random_uuid(), 'batch_id', v_batch,
      'attributes', v_attributes, 'state', p_input, 'unchecked', true,
      'start_ms', extract(epoch from holdfast.start_option('start', options)) * 1000
    ) || holdfast.deadline_option('start', options)
  )) -> 0;
  if v_outcome ->> 2 = 'batch closed' then
    raise exception 'the batch % does not exist or takes no more processes', v_batch using errcode = 'invalid_parameter_value';
  end if;
  if v_outcome ->> 2 = 'other type' then
    raise exception 'the process % is of another type than %', v_id, p_name using errcode = 'invalid_parameter_value';
  end if;
  return (v_outcome ->> 0)::uuid;
end
$$;

-- Starts the newest version. A worker makes the first decision, as for instances that begin later.
create or replace function holdfast.start_workflow_from_sql(p_name text, p_input jsonb, options jsonb)
returns uuid
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_id uuid := coalesce(holdfast.option_of('start', options, 'id', 'id')::uuid, gen_random_uuid());
  v_key text := holdfast.option_of('start', options, 'key', 'key');
  v_definition holdfast.workflow_definition;
  v_there holdfast.workflow;
begin
  perform holdfast.check_options('start', options, array['id', 'key', 'startAt', 'delay']);
  perform holdfast.check_payload('the input of the workflow', p_input);
  select * into v_definition from holdfast.workflow_definition where name = p_name order by version desc limit 1;
  insert into holdfast.workflow (id, definition_id, name, version, key, status, created_at, updated_at, input)
  values (v_id, v_definition.id, p_name, v_definition.version, v_key, 'PENDING', v_now, v_now, p_input)
  on conflict do nothing;
  if found then
    perform holdfast.queue_instance_starts(
      array[v_id], array[v_definition.id], array[coalesce(holdfast.start_option('start', options), v_now)], array[true]
    );
    return v_id;
  end if;
  select * into v_there from holdfast.workflow where id = v_id;
  if not found then
    select * into v_there from holdfast.workflow where name = p_name and key = v_key;
  elsif v_there.name <> p_name then
    raise exception 'the workflow % is of another type than %', v_id, p_name using errcode = 'invalid_parameter_value';
  end if;
  return v_there.id;
end
$$;

-- Sends a response to a process; `process` is its id or key. The worker that delivers it audits a response that does not fit its schema
-- as RESPONSE_REFUSED.
create or replace function holdfast.respond(
  domain text, type text, process text, name text, data jsonb, options jsonb default '{}'
)
returns void
language plpgsql
as $$
declare
  v_type text := holdfast.full_name(domain, type);
  v_response_id text := coalesce(holdfast.option_of('respond', options, 'responseId', 'name'), gen_random_uuid()::text);
  v_id uuid;
  v_actual text;
begin
  perform holdfast.check_options('respond', options, array['responseId']);
  if coalesce(process, '') = '' or coalesce(name, '') = '' or name like '@%' or length(name) > 200 then
    raise exception 'process and name must be texts that are not empty; a name has at most 200 characters and does not begin with @'
      using errcode = 'invalid_parameter_value';
  end if;
  perform holdfast.check_payload('the data of the response', data);
  v_id := holdfast.process_id_of(v_type, process);
  select it.type into v_actual from holdfast.process as it where it.id = v_id;
  if v_actual <> v_type then
    raise exception 'process % is a %, not a %', process, v_actual, v_type
      using errcode = 'invalid_parameter_value', hint = 'Name the domain and type that the process was started with.';
  end if;
  -- A transaction that has not committed yet may start the process; its definition is known then.
  if v_actual is null and not exists (
    select from holdfast.worker_definition as known where known.model = 'processes' and known.name = v_type
  ) then
    perform holdfast.refuse_name('process', domain, type, 'a worker that has its definition');
  end if;
  perform holdfast.post_responses(jsonb_build_array(jsonb_build_object(
    'inbox_id', gen_random_uuid(), 'type', v_type,
    'process_ref', case when v_id is null or v_actual is null then process else v_id::text end, 'name', name,
    'response_id', v_response_id, 'data', data, 'checked', false
  )));
end
$$;

-- Confirms or rejects a human step of a workflow. The engine decides what comes next, so a worker applies the decision after the commit,
-- like a queued start: a row of `workflow_step` with a number below -1. A decision that the step no longer allows by then is audited as
-- DECISION_REFUSED.
create or replace function holdfast.decide(id uuid, step text, decision text, by jsonb)
returns void
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_aging float4 := holdfast.workflow_aging();
  v_actor text := holdfast.option_of('decide', by, 'actor', 'name');
  v_reason text := holdfast.option_of('decide', by, 'reason', 'text');
  v_step holdfast.workflow_step;
begin
  perform holdfast.check_options('decide', by, array['actor', 'reason']);
  if coalesce(trim(v_actor), '') = '' or coalesce(trim(v_reason), '') = '' then
    raise exception 'HF_INVALID_OPTION: decide: `by` must say who decides and why'
      using errcode = 'invalid_parameter_value', hint = 'Give {"actor": "ann", "reason": "checked the invoice"}.';
  end if;
  if decision is null or decision not in ('confirm', 'reject') then
    raise exception 'HF_INVALID_OPTION: decide: `decision` must be confirm or reject, not %', coalesce(decision, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  select * into v_step
  from holdfast.workflow_step as it
  where it.workflow_id = decide.id and it.name = step and it.number >= 0;
  if not found then
    raise exception 'HF_NOT_FOUND: workflow % has no step %, or has not reached it', id, coalesce(step, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Check the id of the instance and the name of the step.';
  end if;
  if v_step.status <> 'WAITING_DECISION' then
    raise exception 'HF_WRONG_STATUS: step % of workflow % is %, and waits for no decision', step, id, v_step.status
      using errcode = 'invalid_parameter_value';
  end if;
  insert into holdfast.workflow_step (
    workflow_id, number, definition_id, name, status, handler, due_at, ready, scheduled_at, priority, aging, rank, reached_at, input
  )
  values (
    id, -2 - v_step.number, v_step.definition_id, '_root_', 'PENDING', '_root_', v_now, true, v_now, 50, v_aging,
    holdfast.workflow_rank(v_now, 50, v_aging), v_now,
    jsonb_build_object('step', step, 'decision', decision, 'actor', v_actor, 'reason', v_reason)
  )
  on conflict do nothing;
  if not found then
    raise exception 'HF_WRONG_STATUS: step % of workflow % has been decided a moment ago', step, id
      using errcode = 'invalid_parameter_value';
  end if;
  perform holdfast.wake('workflows:_root_');
end
$$;

-- Schedules a dispatch item; returns whether it is new. An existing item with another time or context is refused, unless the option
-- `replace` is true and it is still READY. The worker that executes the item checks its context.
create or replace function holdfast.schedule(
  domain text, type text, key text, context jsonb, start_at timestamptz, options jsonb default '{}'
)
returns boolean
language plpgsql
as $$
declare
  v_type text := holdfast.full_name(domain, type);
  v_outcome text;
begin
  perform holdfast.check_options('schedule', options, array['replace', 'contextVersion', 'initWorkflowId']);
  if context is null or start_at is null or not isfinite(start_at) then
    raise exception 'an item needs a context and a time to start at' using errcode = 'invalid_parameter_value';
  end if;
  if coalesce(trim(key), '') = '' or length(key) > 200 then
    raise exception 'the key of an item must be a text of 1 to 200 characters' using errcode = 'invalid_parameter_value';
  end if;
  if not exists (select from holdfast.dispatch_config where item_type = v_type) then
    perform holdfast.refuse_name('dispatch', domain, type, 'a worker that has its definition');
  end if;
  perform holdfast.check_payload('the context of the item', context);
  v_outcome := holdfast.schedule_items(jsonb_build_object(
    'type', v_type, 'replace', holdfast.option_of('schedule', options, 'replace', 'boolean')::boolean,
    'version', coalesce(holdfast.option_of('schedule', options, 'contextVersion', 'count')::int, 1), 'checked', false,
    'items', jsonb_build_array(jsonb_build_array(
      key, extract(epoch from start_at) * 1000, context, null,
      holdfast.option_of('schedule', options, 'initWorkflowId', 'text'), null
    ))
  )) -> 'others' -> 0 ->> 1;
  if v_outcome is null or v_outcome in ('same', 'replaced') then
    return v_outcome is null;
  end if;
  raise exception 'item % of % is there already: %', key, v_type, v_outcome using errcode = 'HF003';
end
$$;
