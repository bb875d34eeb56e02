-- Made from the migrations by `npm run schema`; do not edit.

create table holdfast.audit (
  at timestamp with time zone not null,
  seq bigint generated always as identity not null,
  model text not null,
  event text not null,
  subject_id uuid,
  subject_name text,
  actor text,
  reason text,
  before jsonb,
  after jsonb,
  detail jsonb
) partition by RANGE (at);

create table holdfast.audit_default partition of holdfast.audit DEFAULT;

create table holdfast.chore (
  name text not null,
  every interval not null,
  due_at timestamp with time zone,
  lease_epoch integer default 0 not null,
  leased_by text,
  leased_at timestamp with time zone,
  last_write uuid,
  last_run_at timestamp with time zone,
  last_error text
);

create table holdfast.clock (
  only_row boolean default true not null,
  shift interval default '00:00:00'::interval not null
);

create table holdfast.function_file (
  name text not null,
  revision integer not null,
  checksum text not null,
  applied_at timestamp with time zone default clock_timestamp() not null
);

create table holdfast.migration (
  version integer not null,
  name text not null,
  release integer not null,
  checksum text not null,
  applied_at timestamp with time zone default clock_timestamp() not null
);

create table holdfast.pause (
  subject text not null,
  paused_at timestamp with time zone not null,
  actor text not null,
  reason text not null
);

create table holdfast.wake_bucket (
  bucket integer not null,
  last_wake regclass not null
);

create sequence holdfast.wake_0 as bigint start 1 increment 1;

create sequence holdfast.wake_1 as bigint start 1 increment 1;

create sequence holdfast.wake_10 as bigint start 1 increment 1;

create sequence holdfast.wake_11 as bigint start 1 increment 1;

create sequence holdfast.wake_12 as bigint start 1 increment 1;

create sequence holdfast.wake_13 as bigint start 1 increment 1;

create sequence holdfast.wake_14 as bigint start 1 increment 1;

create sequence holdfast.wake_15 as bigint start 1 increment 1;

create sequence holdfast.wake_2 as bigint start 1 increment 1;

create sequence holdfast.wake_3 as bigint start 1 increment 1;

create sequence holdfast.wake_4 as bigint start 1 increment 1;

create sequence holdfast.wake_5 as bigint start 1 increment 1;

create sequence holdfast.wake_6 as bigint start 1 increment 1;

create sequence holdfast.wake_7 as bigint start 1 increment 1;

create sequence holdfast.wake_8 as bigint start 1 increment 1;

create sequence holdfast.wake_9 as bigint start 1 increment 1;

alter table holdfast.audit add constraint audit_actor_gives_reason CHECK (((actor IS NULL) OR (reason IS NOT NULL)));

alter table holdfast.audit add constraint audit_has_one_subject CHECK ((num_nonnulls(subject_id, subject_name) = 1));

alter table holdfast.chore add constraint chore_every_check CHECK ((every > '00:00:00'::interval));

alter table holdfast.chore add constraint chore_lease_is_whole CHECK ((((leased_by IS NULL) = (leased_at IS NULL)) AND ((leased_by IS NULL) OR (due_at IS NOT NULL))));

alter table holdfast.chore add constraint chore_pkey PRIMARY KEY (name);

alter table holdfast.clock add constraint clock_only_row_check CHECK (only_row);

alter table holdfast.clock add constraint clock_pkey PRIMARY KEY (only_row);

alter table holdfast.function_file add constraint function_file_pkey PRIMARY KEY (name);

alter table holdfast.migration add constraint migration_pkey PRIMARY KEY (version);

alter table holdfast.pause add constraint pause_pkey PRIMARY KEY (subject);

alter table holdfast.pause add constraint pause_subject_check CHECK ((subject ~ '^(domain|definition|handler):.'::text));

alter table holdfast.wake_bucket add constraint wake_bucket_pkey PRIMARY KEY (bucket);

CREATE INDEX audit_by_actor ON ONLY holdfast.audit USING btree (at, actor) WHERE (actor IS NOT NULL);

CREATE INDEX audit_by_subject_id ON ONLY holdfast.audit USING btree (subject_id, seq) WHERE (subject_id IS NOT NULL);

CREATE INDEX audit_by_subject_name ON ONLY holdfast.audit USING btree (subject_name, seq) WHERE (subject_name IS NOT NULL);

CREATE OR REPLACE FUNCTION holdfast.chore_claim(names text[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer)
 RETURNS TABLE(items json, next_due_ms double precision)
 LANGUAGE plpgsql
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_names text[];
begin
  v_names := array(
    select chore.name
    from holdfast.chore
    where chore.name = any (names)
      and due_at <= v_now
      and (leased_at is null or not spare_leased)
    order by due_at
    limit most
    for no key update skip locked
  );
  return query
  with claimed as (
    update holdfast.chore
    set due_at = v_now + lease_ms * interval '1 ms',
        lease_epoch = lease_epoch + 1,
        leased_by = worker,
        leased_at = v_now
    where chore.name = any (v_names)
    returning chore.name, chore.lease_epoch
  )
  select
    coalesce((select json_agg(json_build_object('id', name, 'type', name, 'epoch', lease_epoch)) from claimed), '[]'),
    (
      select extract(epoch from min(due_at) - v_now)::float8 * 1000
      from holdfast.chore
      where chore.name = any (names) and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
    );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.ensure_audit_partitions(weeks_ahead integer)
 RETURNS SETOF text
 LANGUAGE plpgsql
 SET "TimeZone" TO 'UTC'
 SET lock_timeout TO '1s'
AS $function$
declare
  v_schema text := (select relnamespace::regnamespace from pg_class where oid = (select tableoid from holdfast.clock));
  v_week timestamptz;
  v_name text;
begin
  -- Transaction-level, so that two workers do not make the same partition; nothing else takes it.
  if not pg_try_advisory_xact_lock(hashtextextended('holdfast audit partitions', (select tableoid from holdfast.clock)::bigint)) then
    return;
  end if;
  for v_week in
    select week
    from generate_series(0, weeks_ahead) ahead,
         lateral (select date_trunc('week', holdfast.now()) + ahead * interval '7 days') as at (week)
  loop
    v_name := 'audit_' || to_char(v_week, 'IYYY"w"IW');
    continue when to_regclass(v_schema || '.' || quote_ident(v_name)) is not null;
    -- Rows already in the default partition stay there: moving them would need a long exclusive lock.
    continue when exists (
      select from holdfast.audit_default where at >= v_week and at < v_week + interval '7 days'
    );
    execute format('create table %1$s.%2$I (like %1$s.audit including defaults including constraints)', v_schema, v_name);
    execute format(
      'alter table %s.%I add constraint %I check (at >= %L and at < %L)',
      v_schema, v_name, v_name || '_week', v_week, v_week + interval '7 days'
    );
    execute format(
      'alter table %1$s.audit attach partition %1$s.%2$I for values from (%3$L) to (%4$L)',
      v_schema, v_name, v_week, v_week + interval '7 days'
    );
    return next v_name;
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.is_paused(subjects text[])
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
  select exists (select from holdfast.pause where subject = any (subjects))
$function$
;

CREATE OR REPLACE FUNCTION holdfast.now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
  select statement_timestamp() + (select shift from holdfast.clock)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.refuse_audit_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'the audit trail is append-only' using errcode = 'restrict_violation';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.wake(topic text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_bucket int := holdfast.wake_bucket_of(topic);
  v_now bigint := extract(epoch from clock_timestamp()) * 1000;
  v_sequence regclass;
  v_last bigint;
begin
  select last_wake into strict v_sequence from holdfast.wake_bucket where bucket = v_bucket;
  v_last := pg_sequence_last_value(v_sequence);
  -- The distance counts in both directions: a clock that was set back must not silence wake-ups until it catches up.
  if v_last is null or abs(v_now - v_last) >= 5 then
    perform setval(v_sequence, v_now);
    perform pg_notify(holdfast.wake_channel(), v_bucket::text);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.wake_bucket_of(topic text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  select hashtext(topic) & 15
$function$
;

CREATE OR REPLACE FUNCTION holdfast.wake_channel()
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
  select 'holdfast_' || tableoid from holdfast.clock
$function$
;

CREATE TRIGGER audit_is_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON holdfast.audit FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_audit_change();
