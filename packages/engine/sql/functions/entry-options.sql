-- revision: 4
-- after: kernel
--
-- Names and options of the functions that other languages call (entry-points.sql). Options are a JSON object with the names and forms of
-- the TypeScript API: a duration is `'5s'`, `'PT1H'` or milliseconds, a moment is a string. What must not break: an unknown option, or
-- one of another form, is refused with its name and never ignored.

-- The name of a definition.
create or replace function holdfast.full_name(p_domain text, p_type text)
returns text
language sql
immutable
parallel safe
as $$
  select p_domain || '/' || p_type
$$;

create or replace function holdfast.refuse_name(p_what text, p_domain text, p_type text, p_known_by text)
returns void
language plpgsql
as $$
begin
  raise exception 'HF_NOT_FOUND: there is no % %', p_what, coalesce(holdfast.full_name(p_domain, p_type), 'null')
    using errcode = 'invalid_parameter_value',
      hint = format('Check domain and type: they are known once %s has started.', p_known_by);
end
$$;

create or replace function holdfast.refuse_option(p_function text, p_name text, p_problem text)
returns void
language plpgsql
as $$
begin
  raise exception 'HF_INVALID_OPTION: %: `%` %', p_function, p_name, p_problem using errcode = 'invalid_parameter_value';
end
$$;

-- Refuses options that are not an object, and names that are not in the list.
create or replace function holdfast.check_options(p_function text, p_options jsonb, p_known text[])
returns void
language plpgsql
as $$
declare
  v_unknown text;
begin
  if jsonb_typeof(p_options) is distinct from 'object' then
    raise exception 'HF_INVALID_OPTION: %: the options must be a JSON object', p_function
      using errcode = 'invalid_parameter_value', hint = format('Known options: %s.', array_to_string(p_known, ', '));
  end if;
  select name into v_unknown from jsonb_object_keys(p_options) as name where name <> all (p_known) limit 1;
  if found then
    raise exception 'HF_INVALID_OPTION: %: there is no option `%`', p_function, v_unknown
      using errcode = 'invalid_parameter_value', hint = format('Known options: %s.', array_to_string(p_known, ', '));
  end if;
end
$$;

create or replace function holdfast.check_apart(p_function text, p_options jsonb, p_names text[])
returns void
language plpgsql
as $$
begin
  if p_options ->> p_names[1] is not null and p_options ->> p_names[2] is not null then
    perform holdfast.refuse_option(p_function, p_names[2], format('goes without `%s`: give one of them', p_names[1]));
  end if;
end
$$;

-- One option as text, checked; null if it is not given. Durations are in milliseconds.
create or replace function holdfast.option_of(p_function text, p_options jsonb, p_name text, p_kind text)
returns text
language plpgsql
as $$
declare
  v_value text := p_options ->> p_name;
  v_type text := jsonb_typeof(p_options -> p_name);
  v_uuid constant text := '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
begin
  if v_value is null then
    return null;
  end if;
  case p_kind
    when 'text' then
      if v_type = 'string' then
        return v_value;
      end if;
    when 'name' then
      if v_type = 'string' and length(v_value) between 1 and 200 then
        return v_value;
      end if;
      perform holdfast.refuse_option(p_function, p_name, 'must be a text of 1 to 200 characters');
    when 'key' then
      if v_type = 'string' and length(v_value) between 1 and 512 and v_value !~* v_uuid then
        return v_value;
      end if;
      perform holdfast.refuse_option(p_function, p_name, 'must be a text of 1 to 512 characters that is not a UUID');
    when 'id' then
      if v_type = 'string' and v_value ~* v_uuid then
        return v_value;
      end if;
      perform holdfast.refuse_option(p_function, p_name, 'must be a UUID, not ' || left(v_value, 100));
    when 'boolean' then
      if v_type = 'boolean' then
        return v_value;
      end if;
    when 'count' then
      if v_type = 'number' and v_value ~ '^[1-9]\d{0,8}$' then
        return v_value;
      end if;
      perform holdfast.refuse_option(p_function, p_name, 'must be a whole number from 1 on, not ' || left(v_value, 100));
    when 'retry' then
      if v_type = 'object' then
        perform holdfast.check_options(p_function || ': retry', p_options -> p_name, array['maxAttempts']);
        return holdfast.option_of(p_function || ': retry', p_options -> p_name, 'maxAttempts', 'count');
      end if;
      perform holdfast.refuse_option(p_function, p_name, 'must be an object such as {"maxAttempts": 5}');
    when 'time' then
      return holdfast.time_option(p_function, p_name, v_value, v_type);
    when 'duration' then
      return holdfast.duration_option(p_function, p_name, v_value, v_type);
  end case;
  perform holdfast.refuse_option(p_function, p_name, format('must be a %s, not %s', p_kind, v_type));
end
$$;

create or replace function holdfast.time_option(p_function text, p_name text, p_value text, p_type text)
returns text
language plpgsql
as $$
begin
  -- Without a zone it would mean another moment in every session.
  if p_type = 'string' and p_value ~* '^\d{4}-\d\d-\d\d.*(z|[+-]\d\d(:?\d\d)?)$' then
    return p_value::timestamptz;
  end if;
  raise invalid_datetime_format;
exception when invalid_datetime_format or datetime_field_overflow or invalid_time_zone_displacement_value or invalid_parameter_value then
  perform holdfast.refuse_option(p_function, p_name, 'must be a moment such as "2031-01-31T16:00:00Z", not ' || left(p_value, 100));
end
$$;

-- Milliseconds, `'1.5s'` (also `ms`, `m`, `h` and `d`), or ISO 8601 without years and months, which have no fixed length.
create or replace function holdfast.duration_option(p_function text, p_name text, p_value text, p_type text)
returns text
language plpgsql
as $$
declare
  v_parts text[] := regexp_match(p_value, '^(\d{1,15}(?:\.\d{1,15})?)(ms|s|m|h|d)$');
  v_ms numeric;
begin
  if p_type = 'number' then
    v_ms := p_value::numeric;
  elsif v_parts is not null then
    v_ms := v_parts[1]::numeric * case v_parts[2] when 'ms' then 1 when 's' then 1000 when 'm' then 60000 when 'h' then 3600000 else 86400000 end;
  elsif p_value ~ '^P(?=.)(\d{1,6}(\.\d+)?W)?(\d{1,6}(\.\d+)?D)?(T(?=.)(\d{1,8}(\.\d+)?H)?(\d{1,8}(\.\d+)?M)?(\d{1,9}(\.\d+)?S)?)?$' then
    v_ms := extract(epoch from p_value::interval) * 1000;
  end if;
  if v_ms is null or v_ms < 0 or v_ms > 36500 * 86400000.0 then
    perform holdfast.refuse_option(p_function, p_name, 'must be a duration such as "5s", "PT1H" or milliseconds, not ' || left(p_value, 100));
  end if;
  return round(v_ms);
end
$$;

-- When work begins: `startAt`, or `delay` from now; null for at once.
create or replace function holdfast.start_option(p_function text, p_options jsonb)
returns timestamptz
language sql
stable
as $$
  select coalesce(
    holdfast.option_of(p_function, p_options, 'startAt', 'time')::timestamptz,
    holdfast.now() + holdfast.option_of(p_function, p_options, 'delay', 'duration')::float8 * interval '1 ms'
  )
$$;

-- `deadline`: a moment, or a duration from the start, as `start_processes` takes it.
create or replace function holdfast.deadline_option(p_function text, p_options jsonb)
returns jsonb
language plpgsql
stable
as $$
begin
  if p_options ->> 'deadline' ~ '^\d{4}-' then
    return jsonb_build_object(
      'deadline_ms', extract(epoch from holdfast.option_of(p_function, p_options, 'deadline', 'time')::timestamptz) * 1000
    );
  end if;
  return jsonb_build_object('deadline_in_ms', holdfast.option_of(p_function, p_options, 'deadline', 'duration')::float8);
end
$$;

-- The id of work with a key, derived as `keyedId` of the library does; null without a key.
create or replace function holdfast.keyed_id(p_model text, p_domain text, p_type text, p_key text)
returns uuid
language sql
immutable
parallel safe
as $$
  select overlay(overlay(
    left(encode(sha256(convert_to(
      '[' || concat_ws(',', to_json(p_model), to_json(p_domain), to_json(p_type), to_json(p_key)) || ']', 'UTF8'
    )), 'hex'), 32)
    -- A UUID of version 8, whose content is our own choice.
    placing '8' from 13) placing '8' from 17)::uuid
  where p_key is not null
$$;
