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

create table holdfast.batch (
  batch_id uuid not null,
  domain text not null,
  name text,
  data jsonb,
  notes jsonb,
  on_complete jsonb,
  sealed boolean not null,
  status text default 'PENDING'::text not null,
  created_at timestamp with time zone not null,
  started_at timestamp with time zone,
  completed_at timestamp with time zone,
  total integer,
  completed integer,
  failed integer,
  cancelled integer,
  create_token uuid,
  tallied_total integer default 0 not null,
  tallied_completed integer default 0 not null,
  tallied_failed integer default 0 not null,
  tallied_cancelled integer default 0 not null
);

create table holdfast.batch_open (
  batch_id uuid not null,
  command_id uuid not null,
  domain text not null
);

create table holdfast.batch_tally (
  tally_id bigint generated always as identity not null,
  batch_id uuid not null,
  added integer default 0 not null,
  completed integer default 0 not null,
  failed integer default 0 not null,
  cancelled integer default 0 not null,
  due_at timestamp with time zone
);

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

create table holdfast.command (
  command_id uuid not null,
  domain text not null,
  type text not null,
  status text default 'PENDING'::text not null,
  attempts integer default 0 not null,
  max_attempts integer,
  msg_id bigint,
  correlation_id uuid,
  reply_to text,
  batch_id uuid,
  version integer,
  created_at timestamp with time zone not null,
  run_at timestamp with time zone,
  updated_at timestamp with time zone not null,
  last_write uuid,
  data jsonb,
  notes jsonb,
  result jsonb,
  result_notes jsonb,
  error_kind text,
  error_code text,
  error_message text,
  send_token uuid,
  inquiry text,
  uncounted integer default 0 not null,
  effect text,
  key text
) with (fillfactor=50);

create table holdfast.command_queue (
  domain text not null,
  queue text not null
);

create table holdfast.command_trouble (
  command_id uuid not null,
  domain text not null,
  type text not null,
  since timestamp with time zone not null,
  error_kind text not null,
  error_code text not null,
  error_message text not null,
  fingerprint text not null,
  batch_id uuid,
  error_stack text
);

create table holdfast.dispatch_config (
  item_type text collate "C" not null,
  enabled boolean default true not null,
  batch_size integer default 500 not null,
  dispatch_interval_secs double precision default 5 not null,
  jitter_window_ms integer default 4000 not null,
  pre_start_buffer_mins double precision default 0 not null,
  max_dispatch_retries integer default 5 not null,
  stale_claim_threshold_mins double precision default 2 not null,
  max_stale_recovery_per_cycle integer default 100 not null,
  max_batches_ahead integer default 4,
  exec_workflow_type text,
  exec_task_queue text,
  rate_limit_key text collate "C",
  engine text not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  trip_after integer default 1000
);

create table holdfast.dispatch_context (
  item_type text collate "C" not null,
  item_id text collate "C" not null,
  context jsonb not null,
  notes jsonb,
  context_version integer not null,
  checked boolean not null,
  details jsonb,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null
);

create table holdfast.dispatch_cycle (
  item_type text collate "C" not null,
  due_at timestamp with time zone,
  lease_epoch integer default 0 not null,
  leased_by text,
  leased_at timestamp with time zone,
  last_run_at timestamp with time zone,
  last_error text,
  exec_types text[] default '{}'::text[] not null,
  ahead_since timestamp with time zone,
  failures_in_row integer default 0 not null,
  tripped_at timestamp with time zone,
  trip_reason text
) with (fillfactor=20);

create table holdfast.dispatch_dead_letter (
  item_type text collate "C" not null,
  item_id text collate "C" not null,
  since timestamp with time zone not null,
  error_code text not null,
  error_message text not null,
  fingerprint text not null,
  counted boolean default false not null
);

create table holdfast.dispatch_item (
  item_type text collate "C" not null,
  item_id text collate "C" not null,
  seq bigint generated always as identity not null,
  status text default 'READY'::text not null,
  exec_time timestamp with time zone not null,
  due_at timestamp with time zone,
  check_at timestamp with time zone,
  retry_count integer default 0 not null,
  failed_executions integer default 0 not null,
  context_hash bigint not null,
  init_workflow_id text,
  batch_id uuid,
  execution_id text,
  claimed_at timestamp with time zone,
  dispatched_at timestamp with time zone,
  completed_at timestamp with time zone,
  last_error text,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null
) with (fillfactor=85);

create table holdfast.dispatch_pace (
  item_type text collate "C" not null,
  until timestamp with time zone not null
) with (fillfactor=50);

create table holdfast.dispatch_tally (
  item_type text collate "C" not null,
  status text not null,
  minute timestamp with time zone,
  count bigint not null
);

create table holdfast.function_file (
  name text not null,
  revision integer not null,
  checksum text not null,
  applied_at timestamp with time zone default clock_timestamp() not null
);

create table holdfast.lost_claim (
  source text not null,
  id text not null,
  epoch integer not null,
  progress text,
  state text not null,
  lost_alone integer default 0 not null,
  lost_shared integer default 0 not null,
  at timestamp with time zone not null
) with (fillfactor=70);

create table holdfast.migration (
  version integer not null,
  name text not null,
  release integer not null,
  checksum text not null,
  applied_at timestamp with time zone default clock_timestamp() not null
);

create table holdfast.missed_handler (
  handler text not null,
  missed_at timestamp with time zone not null
);

create table holdfast.pause (
  subject text not null,
  paused_at timestamp with time zone not null,
  actor text not null,
  reason text not null
);

create table holdfast.presence (
  only_row boolean default true not null,
  last_beat_at timestamp with time zone not null,
  steady_since timestamp with time zone not null
);

create table holdfast.process (
  id uuid not null,
  type text not null,
  version integer not null,
  status text not null,
  due_at timestamp with time zone,
  lease_epoch integer default 0 not null,
  leased_by text,
  leased_at timestamp with time zone,
  last_write uuid,
  created_at timestamp with time zone not null,
  rested_epoch integer default 0 not null,
  generation integer default 1 not null,
  responses integer default 0 not null,
  cancel text,
  deadline_at timestamp with time zone,
  mismatch_since timestamp with time zone,
  queued_at timestamp with time zone,
  dispatch_type text collate "C",
  unbegun_epoch integer
) with (fillfactor=50);

create table holdfast.process_detail (
  id uuid not null,
  type text not null,
  model text not null,
  key text,
  parent_id uuid,
  parent_call text,
  batch_id uuid,
  attributes jsonb,
  created_at timestamp with time zone not null,
  start_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  ended_at timestamp with time zone,
  state jsonb,
  state_notes jsonb,
  state_responses integer default 0 not null,
  state_checked boolean default true not null,
  state_unmet jsonb,
  projection jsonb,
  projection_notes jsonb,
  projection_responses integer,
  result jsonb,
  result_notes jsonb,
  waiting_for text,
  wait_timeout_at timestamp with time zone,
  next_retry_at timestamp with time zone,
  error_kind text,
  error_code text,
  error_message text,
  dispatch_item text collate "C",
  undone boolean,
  state_events jsonb
) with (fillfactor=60);

create table holdfast.process_history (
  process_id uuid not null,
  generation integer not null,
  seq integer not null,
  epoch integer not null,
  at timestamp with time zone not null,
  kind text not null,
  name text not null,
  occurrence integer not null,
  status text not null,
  attempt integer,
  seen integer,
  next_at timestamp with time zone,
  result jsonb,
  notes jsonb,
  detail jsonb
);

create table holdfast.process_inbox (
  id uuid not null,
  type text not null,
  process_ref text not null,
  name text not null,
  response_id text not null,
  data jsonb,
  notes jsonb,
  checked boolean not null,
  created_at timestamp with time zone not null,
  due_at timestamp with time zone,
  lease_epoch integer default 0 not null,
  leased_by text,
  leased_at timestamp with time zone,
  place bigint default nextval('holdfast.process_inbox_place'::regclass) not null
) with (fillfactor=70);

create table holdfast.process_response (
  process_id uuid not null,
  number integer not null,
  name text not null,
  response_id text not null,
  at timestamp with time zone not null,
  data jsonb,
  notes jsonb
);

create table holdfast.process_setting (
  type text not null,
  wait_timeout_ms bigint,
  deadline_action text,
  concurrency integer,
  lease_ms integer,
  poll_ms integer,
  updated_at timestamp with time zone not null
);

create table holdfast.process_slot (
  process_id uuid not null,
  type text not null
);

create table holdfast.process_trouble (
  id uuid not null,
  type text not null,
  since timestamp with time zone not null,
  error_kind text not null,
  error_code text not null,
  error_message text not null,
  fingerprint text not null,
  batch_id uuid,
  error_stack text,
  step text
);

create table holdfast.rate_limit (
  resource_key text collate "C" not null,
  tickets_per_second double precision not null,
  burst integer,
  description text
);

create table holdfast.rate_limit_bucket (
  resource_key text collate "C" not null,
  full_at timestamp with time zone not null,
  written_at timestamp with time zone not null,
  tickets_per_second double precision not null,
  burst integer not null
) with (fillfactor=20);

create table holdfast.reply_queue (
  domain text not null,
  queue text not null
);

create table holdfast.result_wait (
  model text not null,
  until timestamp with time zone not null
) with (fillfactor=10);

create table holdfast.setting (
  name text not null,
  value jsonb not null
);

create table holdfast.trouble_assignment (
  model text not null,
  place text collate "C" not null,
  since timestamp with time zone not null,
  assigned_to text not null,
  assigned_at timestamp with time zone not null
);

create table holdfast.wake_bucket (
  bucket integer not null,
  last_wake regclass not null
);

create table holdfast.worker_definition (
  model text not null,
  name text not null,
  version integer not null,
  worker text not null,
  lease_ms integer,
  seen_at timestamp with time zone not null
);

create table holdfast.workflow (
  id uuid not null,
  definition_id integer not null,
  name text not null,
  version integer not null,
  key text,
  status text not null,
  revision integer default 0 not null,
  last_write uuid,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  ended_at timestamp with time zone,
  input jsonb,
  input_notes jsonb,
  output jsonb,
  output_notes jsonb,
  failed_step text,
  failure jsonb,
  dispatch_type text collate "C",
  dispatch_item text collate "C"
) with (fillfactor=60, toast_tuple_target=256);

create table holdfast.workflow_dead_letter (
  id uuid not null,
  workflow_id uuid not null,
  number smallint not null,
  workflow_name text not null,
  workflow_version integer not null,
  step text not null,
  step_type text not null,
  kind text not null,
  input jsonb,
  input_notes jsonb,
  failure jsonb not null,
  fingerprint text not null,
  reason text not null,
  created_at timestamp with time zone not null
);

create table holdfast.workflow_decision (
  workflow_id uuid not null,
  step text not null,
  decision text not null,
  actor text not null,
  reason text not null,
  at timestamp with time zone not null
);

create table holdfast.workflow_definition (
  id integer generated always as identity not null,
  name text not null,
  version integer not null,
  hash text not null,
  body jsonb not null,
  lease_ms integer,
  created_at timestamp with time zone not null,
  checks_input boolean default false not null
);

create table holdfast.workflow_set_aside (
  definition_id integer not null
);

create table holdfast.workflow_setting (
  is_single boolean default true not null,
  aging real not null
);

create table holdfast.workflow_step (
  workflow_id uuid not null,
  number smallint not null,
  definition_id integer not null,
  name text not null,
  status text not null,
  handler text,
  compensates boolean default false not null,
  due_at timestamp with time zone,
  ready boolean default false not null,
  scheduled_at timestamp with time zone,
  priority smallint,
  aging real,
  rank timestamp with time zone,
  lease_epoch integer default 0 not null,
  leased_by text,
  leased_at timestamp with time zone,
  in_flight boolean default false not null,
  abort boolean default false not null,
  attempts integer default 0 not null,
  compensation_attempts integer default 0 not null,
  ended_order integer,
  side text,
  dlq boolean default false not null,
  reached_at timestamp with time zone not null,
  started_at timestamp with time zone,
  ended_at timestamp with time zone,
  input jsonb,
  input_notes jsonb,
  output jsonb,
  output_notes jsonb,
  failure jsonb,
  outcome text,
  compensation_outcome text
) with (fillfactor=60, toast_tuple_target=256);

create sequence holdfast.process_inbox_place as bigint start 1 increment 1;

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

alter table holdfast.audit add constraint audit_has_one_subject CHECK (((subject_id IS NULL) <> (subject_name IS NULL)));

alter table holdfast.batch add constraint batch_is_counted_when_closed CHECK (((completed_at IS NULL) = (total IS NULL)));

alter table holdfast.batch add constraint batch_pkey PRIMARY KEY (batch_id);

alter table holdfast.batch add constraint batch_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'IN_PROGRESS'::text, 'COMPLETED'::text, 'COMPLETED_WITH_FAILURES'::text])));

alter table holdfast.batch_open add constraint batch_open_pkey PRIMARY KEY (batch_id, command_id, domain);

alter table holdfast.batch_tally add constraint batch_tally_pkey PRIMARY KEY (tally_id);

alter table holdfast.chore add constraint chore_every_check CHECK ((every > '00:00:00'::interval));

alter table holdfast.chore add constraint chore_lease_is_whole CHECK ((((leased_by IS NULL) = (leased_at IS NULL)) AND ((leased_by IS NULL) OR (due_at IS NOT NULL))));

alter table holdfast.chore add constraint chore_pkey PRIMARY KEY (name);

alter table holdfast.clock add constraint clock_only_row_check CHECK (only_row);

alter table holdfast.clock add constraint clock_pkey PRIMARY KEY (only_row);

alter table holdfast.command add constraint command_effect_is_known CHECK ((effect = 'unknown'::text));

alter table holdfast.command add constraint command_inquiry_is_known CHECK ((inquiry = ANY (ARRAY['possible'::text, 'impossible'::text])));

alter table holdfast.command add constraint command_max_attempts_check CHECK ((max_attempts >= 1));

alter table holdfast.command add constraint command_pkey PRIMARY KEY (command_id, domain);

alter table holdfast.command add constraint command_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'COMPLETED'::text, 'FAILED'::text, 'CANCELLED'::text, 'IN_TROUBLESHOOTING_QUEUE'::text])));

alter table holdfast.command_queue add constraint command_queue_pkey PRIMARY KEY (domain);

alter table holdfast.command_queue add constraint command_queue_queue_key UNIQUE (queue);

alter table holdfast.command_trouble add constraint command_trouble_pkey PRIMARY KEY (command_id, domain);

alter table holdfast.dispatch_config add constraint dispatch_config_batch_size_check CHECK (((batch_size >= 1) AND (batch_size <= 100000)));

alter table holdfast.dispatch_config add constraint dispatch_config_dispatch_interval_secs_check CHECK (((dispatch_interval_secs >= (0)::double precision) AND (dispatch_interval_secs <= (86400)::double precision)));

alter table holdfast.dispatch_config add constraint dispatch_config_engine_check CHECK ((engine = ANY (ARRAY['PROCESS'::text, 'WORKFLOW'::text, 'REMOTE'::text])));

alter table holdfast.dispatch_config add constraint dispatch_config_exec_task_queue_check CHECK (((length(exec_task_queue) >= 1) AND (length(exec_task_queue) <= 300)));

alter table holdfast.dispatch_config add constraint dispatch_config_exec_workflow_type_check CHECK (((length(exec_workflow_type) >= 1) AND (length(exec_workflow_type) <= 300)));

alter table holdfast.dispatch_config add constraint dispatch_config_item_type_check CHECK ((item_type ~ '^[^/:#]{1,200}/[^/:#]{1,200}$'::text));

alter table holdfast.dispatch_config add constraint dispatch_config_jitter_window_ms_check CHECK (((jitter_window_ms >= 0) AND (jitter_window_ms <= 86400000)));

alter table holdfast.dispatch_config add constraint dispatch_config_max_batches_ahead_check CHECK (((max_batches_ahead >= 1) AND (max_batches_ahead <= 100000)));

alter table holdfast.dispatch_config add constraint dispatch_config_max_dispatch_retries_check CHECK (((max_dispatch_retries >= 1) AND (max_dispatch_retries <= 1000)));

alter table holdfast.dispatch_config add constraint dispatch_config_max_stale_recovery_per_cycle_check CHECK (((max_stale_recovery_per_cycle >= 1) AND (max_stale_recovery_per_cycle <= 10000)));

alter table holdfast.dispatch_config add constraint dispatch_config_pkey PRIMARY KEY (item_type);

alter table holdfast.dispatch_config add constraint dispatch_config_pre_start_buffer_mins_check CHECK (((pre_start_buffer_mins >= (0)::double precision) AND (pre_start_buffer_mins <= (1440)::double precision)));

alter table holdfast.dispatch_config add constraint dispatch_config_rate_limit_key_check CHECK (((length(rate_limit_key) >= 1) AND (length(rate_limit_key) <= 200)));

alter table holdfast.dispatch_config add constraint dispatch_config_stale_claim_threshold_mins_check CHECK (((stale_claim_threshold_mins >= (0.001)::double precision) AND (stale_claim_threshold_mins <= (1440)::double precision)));

alter table holdfast.dispatch_config add constraint dispatch_config_trip_after_check CHECK (((trip_after >= 1) AND (trip_after <= 1000000)));

alter table holdfast.dispatch_context add constraint dispatch_context_pkey PRIMARY KEY (item_type, item_id);

alter table holdfast.dispatch_cycle add constraint dispatch_cycle_lease_is_whole CHECK ((((leased_by IS NULL) = (leased_at IS NULL)) AND ((leased_by IS NULL) OR (due_at IS NOT NULL))));

alter table holdfast.dispatch_cycle add constraint dispatch_cycle_pkey PRIMARY KEY (item_type);

alter table holdfast.dispatch_dead_letter add constraint dispatch_dead_letter_pkey PRIMARY KEY (item_type, item_id);

alter table holdfast.dispatch_item add constraint dispatch_item_is_checked_in_flight CHECK (((check_at IS NULL) OR (status = ANY (ARRAY['CLAIMED'::text, 'DISPATCHED'::text]))));

alter table holdfast.dispatch_item add constraint dispatch_item_is_due_when_ready CHECK (((status = 'READY'::text) = (due_at IS NOT NULL)));

alter table holdfast.dispatch_item add constraint dispatch_item_item_id_check CHECK (((length(item_id) >= 1) AND (length(item_id) <= 200)));

alter table holdfast.dispatch_item add constraint dispatch_item_pkey PRIMARY KEY (item_type, item_id);

alter table holdfast.dispatch_item add constraint dispatch_item_status_check CHECK ((status = ANY (ARRAY['READY'::text, 'CLAIMED'::text, 'DISPATCHED'::text, 'COMPLETED'::text, 'FAILED'::text, 'DEAD_LETTER'::text])));

alter table holdfast.dispatch_pace add constraint dispatch_pace_pkey PRIMARY KEY (item_type);

alter table holdfast.function_file add constraint function_file_pkey PRIMARY KEY (name);

alter table holdfast.lost_claim add constraint lost_claim_pkey PRIMARY KEY (source, id);

alter table holdfast.lost_claim add constraint lost_claim_state_check CHECK ((state = ANY (ARRAY['claimed'::text, 'begun'::text, 'alone'::text, 'interrupted'::text])));

alter table holdfast.migration add constraint migration_pkey PRIMARY KEY (version);

alter table holdfast.missed_handler add constraint missed_handler_pkey PRIMARY KEY (handler);

alter table holdfast.pause add constraint pause_pkey PRIMARY KEY (subject);

alter table holdfast.pause add constraint pause_subject_check CHECK ((subject ~ '^(domain|definition|handler):.'::text));

alter table holdfast.presence add constraint presence_only_row_check CHECK (only_row);

alter table holdfast.presence add constraint presence_pkey PRIMARY KEY (only_row);

alter table holdfast.process add constraint process_cancel_check CHECK ((cancel = ANY (ARRAY['PLAIN'::text, 'COMPENSATE'::text])));

alter table holdfast.process add constraint process_ended_is_over CHECK (((status <> ALL (ARRAY['COMPENSATED'::text, 'COMPLETED'::text, 'CANCELLED'::text, 'FAILED'::text])) OR ((due_at IS NULL) AND (queued_at IS NULL) AND (leased_by IS NULL))));

alter table holdfast.process add constraint process_lease_is_whole CHECK ((((leased_by IS NULL) = (leased_at IS NULL)) AND ((leased_by IS NULL) OR (due_at IS NOT NULL))));

alter table holdfast.process add constraint process_pkey PRIMARY KEY (id);

alter table holdfast.process add constraint process_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'WAITING_FOR_ASYNC'::text, 'WAITING_FOR_RETRY'::text, 'WAITING_FOR_REPLY'::text, 'WAITING_FOR_TSQ'::text, 'COMPENSATING'::text, 'COMPENSATED'::text, 'COMPLETED'::text, 'CANCELLED'::text, 'FAILED'::text])));

alter table holdfast.process_detail add constraint process_detail_model_check CHECK ((model = ANY (ARRAY['PROCESS_STEP'::text, 'STEP_BASED'::text])));

alter table holdfast.process_detail add constraint process_detail_pkey PRIMARY KEY (id);

alter table holdfast.process_history add constraint process_history_kind_check CHECK ((kind = ANY (ARRAY['STEP'::text, 'TRANSACTION'::text, 'SIDE_EFFECT'::text, 'WAIT'::text, 'EVENT'::text, 'SLEEP'::text, 'COMMAND'::text, 'CHILD'::text, 'COMPENSATION'::text, 'UNWIND'::text, 'RETRY'::text, 'RESUME'::text, 'RESOLVE'::text])));

alter table holdfast.process_history add constraint process_history_pkey PRIMARY KEY (process_id, generation, seq);

alter table holdfast.process_history add constraint process_history_status_check CHECK ((status = ANY (ARRAY['STARTED'::text, 'COMPLETED'::text, 'FAILED'::text, 'WAITING_RETRY'::text])));

alter table holdfast.process_inbox add constraint process_inbox_in_order TRIGGER DEFERRABLE INITIALLY DEFERRED;

alter table holdfast.process_inbox add constraint process_inbox_lease_is_whole CHECK (((leased_by IS NULL) = (leased_at IS NULL)));

alter table holdfast.process_inbox add constraint process_inbox_pkey PRIMARY KEY (id);

alter table holdfast.process_response add constraint process_response_pkey PRIMARY KEY (process_id, number);

alter table holdfast.process_setting add constraint process_setting_concurrency_check CHECK ((concurrency > 0));

alter table holdfast.process_setting add constraint process_setting_deadline_action_check CHECK ((deadline_action = ANY (ARRAY['tsq'::text, 'compensate'::text, 'fail'::text])));

alter table holdfast.process_setting add constraint process_setting_lease_ms_check CHECK ((lease_ms >= 100));

alter table holdfast.process_setting add constraint process_setting_pkey PRIMARY KEY (type);

alter table holdfast.process_setting add constraint process_setting_poll_ms_check CHECK ((poll_ms >= 10));

alter table holdfast.process_setting add constraint process_setting_wait_timeout_ms_check CHECK ((wait_timeout_ms > 0));

alter table holdfast.process_slot add constraint process_slot_pkey PRIMARY KEY (process_id);

alter table holdfast.process_trouble add constraint process_trouble_pkey PRIMARY KEY (id);

alter table holdfast.rate_limit add constraint rate_limit_bucket_fills_up CHECK ((((burst)::double precision / tickets_per_second) <= ('1000000000'::numeric)::double precision));

alter table holdfast.rate_limit add constraint rate_limit_burst_check CHECK (((burst >= 1) AND (burst <= 1000000000)));

alter table holdfast.rate_limit add constraint rate_limit_pkey PRIMARY KEY (resource_key);

alter table holdfast.rate_limit add constraint rate_limit_resource_key_check CHECK (((length(resource_key) >= 1) AND (length(resource_key) <= 200)));

alter table holdfast.rate_limit add constraint rate_limit_tickets_per_second_check CHECK (((tickets_per_second >= (0.000001)::double precision) AND (tickets_per_second <= ('1000000000'::numeric)::double precision)));

alter table holdfast.rate_limit_bucket add constraint rate_limit_bucket_pkey PRIMARY KEY (resource_key);

alter table holdfast.reply_queue add constraint reply_queue_pkey PRIMARY KEY (domain, queue);

alter table holdfast.result_wait add constraint result_wait_pkey PRIMARY KEY (model);

alter table holdfast.setting add constraint setting_pkey PRIMARY KEY (name);

alter table holdfast.trouble_assignment add constraint trouble_assignment_model_check CHECK ((model = ANY (ARRAY['commands'::text, 'processes'::text, 'workflows'::text, 'dispatch'::text])));

alter table holdfast.trouble_assignment add constraint trouble_assignment_pkey PRIMARY KEY (model, place);

alter table holdfast.wake_bucket add constraint wake_bucket_pkey PRIMARY KEY (bucket);

alter table holdfast.worker_definition add constraint worker_definition_model_check CHECK ((model = ANY (ARRAY['commands'::text, 'processes'::text, 'workflows'::text, 'dispatch'::text])));

alter table holdfast.worker_definition add constraint worker_definition_pkey PRIMARY KEY (model, name, version, worker);

alter table holdfast.workflow add constraint workflow_end_has_a_time CHECK (((status = ANY (ARRAY['COMPLETED'::text, 'FAILED'::text, 'CANCELLED'::text, 'ABORTED'::text])) = (ended_at IS NOT NULL)));

alter table holdfast.workflow add constraint workflow_pkey PRIMARY KEY (id);

alter table holdfast.workflow add constraint workflow_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'RUNNING'::text, 'ROLLING_BACK'::text, 'CANCELLING'::text, 'COMPLETED'::text, 'FAILED'::text, 'CANCELLED'::text, 'ABORTED'::text, 'DLQ'::text])));

alter table holdfast.workflow_dead_letter add constraint workflow_dead_letter_kind_check CHECK ((kind = ANY (ARRAY['step'::text, 'compensation'::text])));

alter table holdfast.workflow_dead_letter add constraint workflow_dead_letter_pkey PRIMARY KEY (id);

alter table holdfast.workflow_dead_letter add constraint workflow_dead_letter_workflow_id_number_key UNIQUE (workflow_id, number);

alter table holdfast.workflow_decision add constraint workflow_decision_decision_check CHECK ((decision = ANY (ARRAY['confirm'::text, 'reject'::text])));

alter table holdfast.workflow_definition add constraint workflow_definition_name_version_key UNIQUE (name, version);

alter table holdfast.workflow_definition add constraint workflow_definition_pkey PRIMARY KEY (id);

alter table holdfast.workflow_definition add constraint workflow_definition_version_check CHECK ((version >= 1));

alter table holdfast.workflow_set_aside add constraint workflow_set_aside_pkey PRIMARY KEY (definition_id);

alter table holdfast.workflow_setting add constraint workflow_setting_aging_check CHECK (((aging >= (0)::double precision) AND (aging <= (1000)::double precision)));

alter table holdfast.workflow_setting add constraint workflow_setting_is_single_check CHECK (is_single);

alter table holdfast.workflow_setting add constraint workflow_setting_pkey PRIMARY KEY (is_single);

alter table holdfast.workflow_step add constraint workflow_step_compensation_outcome CHECK ((compensation_outcome = ANY (ARRAY['refused'::text, 'unknown'::text])));

alter table holdfast.workflow_step add constraint workflow_step_is_queued_whole CHECK ((((handler IS NULL) = (due_at IS NULL)) AND ((handler IS NULL) = (rank IS NULL)) AND ((due_at IS NOT NULL) OR (NOT ready))));

alter table holdfast.workflow_step add constraint workflow_step_lease_is_whole CHECK ((((leased_by IS NULL) = (leased_at IS NULL)) AND ((leased_by IS NULL) OR ((due_at IS NOT NULL) AND (NOT ready)))));

alter table holdfast.workflow_step add constraint workflow_step_outcome CHECK ((outcome = ANY (ARRAY['completed'::text, 'refused'::text, 'unknown'::text])));

alter table holdfast.workflow_step add constraint workflow_step_pkey PRIMARY KEY (workflow_id, number);

alter table holdfast.workflow_step add constraint workflow_step_side_check CHECK ((side = ANY (ARRAY['next'::text, 'else'::text])));

alter table holdfast.workflow_step add constraint workflow_step_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'RUNNING'::text, 'COMPLETED'::text, 'FAILED'::text, 'PAUSED'::text, 'COMPENSATING'::text, 'ROLLED_BACK'::text, 'SKIPPED'::text, 'WAITING_DECISION'::text, 'CONFIRMED'::text, 'REJECTED'::text])));

CREATE INDEX audit_by_actor ON ONLY holdfast.audit USING btree (at, actor) WHERE (actor IS NOT NULL);

CREATE INDEX audit_by_subject_id ON ONLY holdfast.audit USING btree (subject_id, seq) WHERE (subject_id IS NOT NULL);

CREATE INDEX audit_by_subject_name ON ONLY holdfast.audit USING btree (subject_name, seq) WHERE (subject_name IS NOT NULL);

CREATE INDEX batch_by_time ON holdfast.batch USING btree (domain, created_at);

CREATE INDEX batch_tally_by_batch ON holdfast.batch_tally USING btree (batch_id);

CREATE INDEX batch_tally_due ON holdfast.batch_tally USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX command_by_batch_and_time ON holdfast.command USING btree (batch_id, created_at) WHERE (batch_id IS NOT NULL);

CREATE INDEX command_by_correlation ON holdfast.command USING btree (correlation_id) WHERE (correlation_id IS NOT NULL);

CREATE INDEX command_by_key ON holdfast.command USING btree (key) WHERE (key IS NOT NULL);

CREATE INDEX command_by_type ON holdfast.command USING btree (domain COLLATE "C", type COLLATE "C", created_at);

CREATE INDEX command_trouble_by_batch ON holdfast.command_trouble USING btree (batch_id) WHERE (batch_id IS NOT NULL);

CREATE INDEX command_trouble_newest ON holdfast.command_trouble USING btree (since, ((((command_id)::text || '/'::text) || domain)) COLLATE "C");

CREATE INDEX command_trouble_newest_by_code ON holdfast.command_trouble USING btree (error_code, since, ((((command_id)::text || '/'::text) || domain)) COLLATE "C");

CREATE INDEX command_trouble_newest_by_domain ON holdfast.command_trouble USING btree (domain, since, ((((command_id)::text || '/'::text) || domain)) COLLATE "C");

CREATE INDEX command_trouble_newest_by_fingerprint ON holdfast.command_trouble USING btree (fingerprint, since, ((((command_id)::text || '/'::text) || domain)) COLLATE "C");

CREATE INDEX command_trouble_newest_by_type ON holdfast.command_trouble USING btree (type, since, ((((command_id)::text || '/'::text) || domain)) COLLATE "C");

CREATE INDEX dispatch_dead_letter_by_item ON holdfast.dispatch_dead_letter USING btree (item_id COLLATE "default");

CREATE INDEX dispatch_dead_letter_new ON holdfast.dispatch_dead_letter USING btree (item_type) WHERE (NOT counted);

CREATE INDEX dispatch_dead_letter_newest ON holdfast.dispatch_dead_letter USING btree (since, (((item_type || '/'::text) || item_id)));

CREATE INDEX dispatch_dead_letter_newest_by_code ON holdfast.dispatch_dead_letter USING btree (error_code, since, (((item_type || '/'::text) || item_id)));

CREATE INDEX dispatch_dead_letter_newest_by_domain ON holdfast.dispatch_dead_letter USING btree ((
CASE
    WHEN (strpos(item_type, '/'::text) = 0) THEN 'default'::text
    ELSE split_part(item_type, '/'::text, 1)
END) COLLATE "default", since, (((item_type || '/'::text) || item_id)));

CREATE INDEX dispatch_dead_letter_newest_by_fingerprint ON holdfast.dispatch_dead_letter USING btree (fingerprint, since, (((item_type || '/'::text) || item_id)));

CREATE INDEX dispatch_dead_letter_newest_by_type ON holdfast.dispatch_dead_letter USING btree (substr(item_type, (strpos(item_type, '/'::text) + 1)) COLLATE "default", since, (((item_type || '/'::text) || item_id)));

CREATE INDEX dispatch_item_check ON holdfast.dispatch_item USING btree (item_type, check_at) WHERE (check_at IS NOT NULL);

CREATE INDEX dispatch_item_due ON holdfast.dispatch_item USING btree (item_type, due_at, seq) WHERE (due_at IS NOT NULL);

CREATE INDEX dispatch_item_newest ON holdfast.dispatch_item USING btree (item_type, created_at, seq) WHERE (seq > 0);

CREATE INDEX dispatch_tally_by_type ON holdfast.dispatch_tally USING btree (item_type, status);

CREATE INDEX lost_claim_by_time ON holdfast.lost_claim USING btree (at);

CREATE INDEX process_by_status ON holdfast.process USING btree (status, type, created_at) WHERE ((leased_at IS NULL) AND (status <> 'COMPLETED'::text));

CREATE INDEX process_due ON holdfast.process USING btree (type, version, due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX process_queued ON holdfast.process USING btree (type, queued_at) WHERE (queued_at IS NOT NULL);

CREATE INDEX process_by_attributes ON holdfast.process_detail USING gin (attributes jsonb_path_ops) WHERE (attributes IS NOT NULL);

CREATE INDEX process_by_batch ON holdfast.process_detail USING btree (batch_id, created_at) WHERE (batch_id IS NOT NULL);

CREATE UNIQUE INDEX process_by_key ON holdfast.process_detail USING btree (type, key) WHERE (key IS NOT NULL);

CREATE INDEX process_by_parent ON holdfast.process_detail USING btree (parent_id) WHERE (parent_id IS NOT NULL);

CREATE INDEX process_by_time ON holdfast.process_detail USING btree (type, created_at);

CREATE INDEX process_inbox_due ON holdfast.process_inbox USING btree (type, due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX process_inbox_of ON holdfast.process_inbox USING btree (type, process_ref);

CREATE UNIQUE INDEX process_response_once ON holdfast.process_response USING btree (process_id, response_id);

CREATE INDEX process_slot_by_type ON holdfast.process_slot USING btree (type);

CREATE INDEX process_trouble_by_batch ON holdfast.process_trouble USING btree (batch_id) WHERE (batch_id IS NOT NULL);

CREATE INDEX process_trouble_newest ON holdfast.process_trouble USING btree (since, ((id)::text) COLLATE "C");

CREATE INDEX process_trouble_newest_by_code ON holdfast.process_trouble USING btree (error_code, since, ((id)::text) COLLATE "C");

CREATE INDEX process_trouble_newest_by_domain ON holdfast.process_trouble USING btree (split_part(type, '/'::text, 1), since, ((id)::text) COLLATE "C");

CREATE INDEX process_trouble_newest_by_fingerprint ON holdfast.process_trouble USING btree (fingerprint, since, ((id)::text) COLLATE "C");

CREATE INDEX process_trouble_newest_by_step ON holdfast.process_trouble USING btree (step, since, ((id)::text) COLLATE "C");

CREATE INDEX process_trouble_newest_by_type ON holdfast.process_trouble USING btree (substr(type, (strpos(type, '/'::text) + 1)), since, ((id)::text) COLLATE "C");

CREATE INDEX trouble_assignment_by_person ON holdfast.trouble_assignment USING btree (assigned_to);

CREATE INDEX workflow_by_end ON holdfast.workflow USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE UNIQUE INDEX workflow_by_key ON holdfast.workflow USING btree (name, key) WHERE (key IS NOT NULL);

CREATE INDEX workflow_by_status ON holdfast.workflow USING btree (status, name, created_at) WHERE (status <> 'COMPLETED'::text);

CREATE INDEX workflow_by_time ON holdfast.workflow USING btree (name, created_at);

CREATE INDEX workflow_dead_letter_newest ON holdfast.workflow_dead_letter USING btree (created_at, ((id)::text) COLLATE "C");

CREATE INDEX workflow_dead_letter_newest_by_code ON holdfast.workflow_dead_letter USING btree (((failure ->> 'code'::text)), created_at, ((id)::text) COLLATE "C");

CREATE INDEX workflow_dead_letter_newest_by_domain ON holdfast.workflow_dead_letter USING btree ((
CASE
    WHEN (strpos(workflow_name, '/'::text) = 0) THEN 'default'::text
    ELSE split_part(workflow_name, '/'::text, 1)
END), created_at, ((id)::text) COLLATE "C");

CREATE INDEX workflow_dead_letter_newest_by_fingerprint ON holdfast.workflow_dead_letter USING btree (fingerprint, created_at, ((id)::text) COLLATE "C");

CREATE INDEX workflow_dead_letter_newest_by_step ON holdfast.workflow_dead_letter USING btree (step, created_at, ((id)::text) COLLATE "C");

CREATE INDEX workflow_dead_letter_newest_by_type ON holdfast.workflow_dead_letter USING btree (substr(workflow_name, (strpos(workflow_name, '/'::text) + 1)), created_at, ((id)::text) COLLATE "C");

CREATE INDEX workflow_decision_by_workflow ON holdfast.workflow_decision USING btree (workflow_id, at);

CREATE INDEX workflow_step_called_off ON holdfast.workflow_step USING btree (due_at) WHERE abort;

CREATE INDEX workflow_step_due ON holdfast.workflow_step USING btree (handler, due_at) WHERE ((NOT ready) AND (due_at IS NOT NULL));

CREATE INDEX workflow_step_ready ON holdfast.workflow_step USING btree (handler, rank, scheduled_at) WHERE ready;

CREATE INDEX workflow_step_set_aside ON holdfast.workflow_step USING btree (definition_id, rank, scheduled_at) WHERE (due_at = 'infinity'::timestamp with time zone);

CREATE INDEX workflow_step_waiting ON holdfast.workflow_step USING btree (reached_at) WHERE (status = 'WAITING_DECISION'::text);

create view holdfast.trouble as
 SELECT 'commands'::text AS model,
    trouble.domain,
    trouble.type,
    (trouble.command_id)::text AS id,
    ( SELECT command.key
           FROM holdfast.command
          WHERE ((command.command_id = trouble.command_id) AND (command.domain = trouble.domain))) AS key,
    NULL::text AS step,
    trouble.error_code AS code,
    trouble.error_kind AS kind,
    trouble.error_message AS message,
    trouble.fingerprint,
    trouble.since,
    ( SELECT command.attempts
           FROM holdfast.command
          WHERE ((command.command_id = trouble.command_id) AND (command.domain = trouble.domain))) AS attempts,
    trouble.error_stack AS stack,
    ARRAY['retry'::text, 'complete'::text, 'cancel'::text] AS can,
    (EXISTS ( SELECT
           FROM holdfast.command
          WHERE ((command.command_id = trouble.command_id) AND (command.domain = trouble.domain) AND (command.effect = 'unknown'::text)))) AS outcome_unknown,
    false AS compensating,
    ( SELECT assignment.assigned_to
           FROM holdfast.trouble_assignment assignment
          WHERE ((assignment.model = 'commands'::text) AND (assignment.place = ((((trouble.command_id)::text || '/'::text) || trouble.domain) COLLATE "C")) AND (assignment.since = trouble.since))) AS assigned_to,
    trouble.command_id AS work_id,
    ((((trouble.command_id)::text || '/'::text) || trouble.domain) COLLATE "C") AS place
   FROM holdfast.command_trouble trouble
UNION ALL
 SELECT 'processes'::text AS model,
    split_part(trouble.type, '/'::text, 1) AS domain,
    substr(trouble.type, (strpos(trouble.type, '/'::text) + 1)) AS type,
    (trouble.id)::text AS id,
    ( SELECT detail.key
           FROM holdfast.process_detail detail
          WHERE (detail.id = trouble.id)) AS key,
    trouble.step,
    trouble.error_code AS code,
    trouble.error_kind AS kind,
    trouble.error_message AS message,
    trouble.fingerprint,
    trouble.since,
    COALESCE(( SELECT history.attempt
           FROM holdfast.process_history history
          WHERE ((history.process_id = trouble.id) AND (history.generation = ( SELECT process.generation
                   FROM holdfast.process
                  WHERE (process.id = trouble.id))) AND (history.status = 'FAILED'::text))
          ORDER BY history.seq DESC
         LIMIT 1), 0) AS attempts,
    trouble.error_stack AS stack,
    ( SELECT holdfast.process_can(process.id, process.generation) AS process_can
           FROM holdfast.process
          WHERE (process.id = trouble.id)) AS can,
    (EXISTS ( SELECT
           FROM (holdfast.process
             CROSS JOIN LATERAL holdfast.unresolved_calls(process.id, process.generation) unresolved_calls(name, occurrence, no_inquire))
          WHERE (process.id = trouble.id))) AS outcome_unknown,
    ( SELECT holdfast.process_is_unwinding(process.id, process.generation) AS process_is_unwinding
           FROM holdfast.process
          WHERE (process.id = trouble.id)) AS compensating,
    ( SELECT assignment.assigned_to
           FROM holdfast.trouble_assignment assignment
          WHERE ((assignment.model = 'processes'::text) AND (assignment.place = ((trouble.id)::text COLLATE "C")) AND (assignment.since = trouble.since))) AS assigned_to,
    trouble.id AS work_id,
    ((trouble.id)::text COLLATE "C") AS place
   FROM holdfast.process_trouble trouble
UNION ALL
 SELECT 'workflows'::text AS model,
        CASE
            WHEN (strpos(letter.workflow_name, '/'::text) = 0) THEN 'default'::text
            ELSE split_part(letter.workflow_name, '/'::text, 1)
        END AS domain,
    substr(letter.workflow_name, (strpos(letter.workflow_name, '/'::text) + 1)) AS type,
    (letter.workflow_id)::text AS id,
    ( SELECT workflow.key
           FROM holdfast.workflow
          WHERE (workflow.id = letter.workflow_id)) AS key,
    letter.step,
    (letter.failure ->> 'code'::text) AS code,
    (letter.failure ->> 'kind'::text) AS kind,
    (letter.failure ->> 'message'::text) AS message,
    letter.fingerprint,
    letter.created_at AS since,
    ( SELECT
                CASE letter.kind
                    WHEN 'step'::text THEN step.attempts
                    ELSE step.compensation_attempts
                END AS compensation_attempts
           FROM holdfast.workflow_step step
          WHERE ((step.workflow_id = letter.workflow_id) AND (step.number = letter.number))) AS attempts,
    (letter.failure ->> 'stack'::text) AS stack,
        CASE
            WHEN ((letter.kind = 'step'::text) AND (letter.step_type <> 'task'::text)) THEN ARRAY['retry'::text, 'cancel'::text]
            WHEN (letter.kind = 'step'::text) THEN ARRAY['retry'::text, 'complete'::text, 'cancel'::text, 'skip'::text]
            WHEN (EXISTS ( SELECT
               FROM holdfast.workflow
              WHERE ((workflow.id = letter.workflow_id) AND (workflow.status = ANY (ARRAY['COMPLETED'::text, 'FAILED'::text, 'CANCELLED'::text, 'ABORTED'::text]))))) THEN ARRAY['retry'::text, 'complete'::text, 'skip'::text]
            ELSE ARRAY['retry'::text, 'complete'::text, 'cancel'::text, 'skip'::text]
        END AS can,
    (EXISTS ( SELECT
           FROM holdfast.workflow_step step
          WHERE ((step.workflow_id = letter.workflow_id) AND (step.number = letter.number) AND (
                CASE letter.kind
                    WHEN 'step'::text THEN step.outcome
                    ELSE step.compensation_outcome
                END = 'unknown'::text)))) AS outcome_unknown,
    (letter.kind = 'compensation'::text) AS compensating,
    ( SELECT assignment.assigned_to
           FROM holdfast.trouble_assignment assignment
          WHERE ((assignment.model = 'workflows'::text) AND (assignment.place = ((letter.id)::text COLLATE "C")) AND (assignment.since = letter.created_at))) AS assigned_to,
    letter.workflow_id AS work_id,
    ((letter.id)::text COLLATE "C") AS place
   FROM holdfast.workflow_dead_letter letter
UNION ALL
 SELECT 'dispatch'::text AS model,
    (
        CASE
            WHEN (strpos(letter.item_type, '/'::text) = 0) THEN 'default'::text
            ELSE split_part(letter.item_type, '/'::text, 1)
        END COLLATE "default") AS domain,
    (substr(letter.item_type, (strpos(letter.item_type, '/'::text) + 1)) COLLATE "default") AS type,
    (letter.item_id COLLATE "default") AS id,
    (letter.item_id COLLATE "default") AS key,
    NULL::text AS step,
    letter.error_code AS code,
    'TRANSIENT'::text AS kind,
    letter.error_message AS message,
    letter.fingerprint,
    letter.since,
    ( SELECT item.retry_count
           FROM holdfast.dispatch_item item
          WHERE ((item.item_type = letter.item_type) AND (item.item_id = letter.item_id))) AS attempts,
    NULL::text AS stack,
    ARRAY['retry'::text, 'complete'::text, 'cancel'::text] AS can,
    false AS outcome_unknown,
    false AS compensating,
    ( SELECT assignment.assigned_to
           FROM holdfast.trouble_assignment assignment
          WHERE ((assignment.model = 'dispatch'::text) AND (assignment.place = (((letter.item_type || '/'::text) || letter.item_id) COLLATE "C")) AND (assignment.since = letter.since))) AS assigned_to,
    '00000000-0000-0000-0000-000000000000'::uuid AS work_id,
    (((letter.item_type || '/'::text) || letter.item_id) COLLATE "C") AS place
   FROM holdfast.dispatch_dead_letter letter;

CREATE OR REPLACE FUNCTION holdfast.absence_counts()
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from holdfast.presence
    where last_beat_at between holdfast.now() - interval '150 s' and holdfast.now()
      and steady_since <= holdfast.now() - interval '120 s'
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.add_workflow_rows(docs jsonb, v_now timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_aging float4 := holdfast.workflow_aging();
  v_handler text;
begin
  insert into holdfast.workflow_step (
    workflow_id, number, definition_id, name, status, handler, compensates, due_at, ready, scheduled_at, priority, aging, rank,
    in_flight, attempts, compensation_attempts, outcome, compensation_outcome, ended_order, side, dlq, reached_at, ended_at, input,
    input_notes, output, output_notes, failure
  )
  select
    workflow_id, number, definition_id, name, status, handler, compensates, due, coalesce(due <= v_now, false), due, priority,
    case when due is not null then v_aging end,
    case when due is not null then holdfast.workflow_rank(due, priority, v_aging) end,
    in_flight, attempts, compensation_attempts, outcome, compensation_outcome, ended_order, side, dlq, v_now,
    case when ended then v_now end, input, input_notes, output, output_notes, failure
  from holdfast.workflow_step_changes(docs, v_now)
  where epoch is null;

  insert into holdfast.audit (at, model, event, subject_id, actor, reason, detail)
  select v_now, 'workflows', event.type, doc.id, event.actor, event.reason, event.detail
  from jsonb_to_recordset(docs) as doc (id uuid, events jsonb)
  cross join lateral jsonb_to_recordset(doc.events) as event (type text, actor text, reason text, detail jsonb);

  if docs @? '$[*].removed_dead_letters' then
    delete from holdfast.workflow_dead_letter
    using (
      select doc.id, number::smallint
      from jsonb_to_recordset(docs) as doc (id uuid, removed_dead_letters jsonb)
      cross join lateral jsonb_array_elements_text(doc.removed_dead_letters) as number
    ) as gone
    where workflow_dead_letter.workflow_id = gone.id and workflow_dead_letter.number = gone.number;
  end if;
  if docs @? '$[*].dead_letters' then
    insert into holdfast.workflow_dead_letter (
      id, workflow_id, number, workflow_name, workflow_version, step, step_type, kind, input, input_notes, failure, fingerprint,
      reason, created_at
    )
    select
      letter.id, doc.id, letter.number, workflow.name, workflow.version, letter.step, letter.type, letter.kind, letter.input,
      letter.input_notes, letter.failure, letter.failure ->> 'fingerprint', letter.reason, v_now
    from jsonb_to_recordset(docs) as doc (id uuid, dead_letters jsonb)
    join holdfast.workflow on workflow.id = doc.id
    cross join lateral jsonb_to_recordset(doc.dead_letters) as letter (
      id uuid, number smallint, step text, type text, kind text, input jsonb, input_notes jsonb, failure jsonb, reason text
    )
    on conflict (workflow_id, number) do update
    set id = excluded.id, kind = excluded.kind, input = excluded.input, input_notes = excluded.input_notes,
        failure = excluded.failure, fingerprint = excluded.fingerprint, reason = excluded.reason,
        created_at = excluded.created_at;
  end if;
  if docs @? '$[*].decisions' then
    insert into holdfast.workflow_decision (workflow_id, step, decision, actor, reason, at)
    select doc.id, it.step, it.decision, it.actor, it.reason, v_now
    from jsonb_to_recordset(docs) as doc (id uuid, decisions jsonb)
    cross join lateral jsonb_to_recordset(doc.decisions) as it (step text, decision text, actor text, reason text);
  end if;

  -- Workers of delayed steps too: the step may fall due before their next poll.
  for v_handler in
    select distinct step.handler
    from jsonb_to_recordset(docs) as doc (steps jsonb)
    cross join lateral jsonb_to_recordset(doc.steps) as step (queue text, handler text)
    where step.queue = 'add'
  loop
    perform holdfast.wake('workflows:' || v_handler);
  end loop;
  if docs @? '$[*].steps[*] ? (@.abort == true)' then
    perform holdfast.wake('workflows:abort');
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.admit_dispatched(ids uuid[])
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_type text;
  v_group uuid[];
  v_config holdfast.dispatch_config;
  v_refused uuid[] := '{}';
begin
  for v_type, v_group in
    select dispatch_type, array_agg(id)
    from holdfast.process
    where id = any (ids) and dispatch_type is not null and leased_at is null and lease_epoch = unbegun_epoch and cancel is null
    group by dispatch_type
    order by dispatch_type
  loop
    if not pg_try_advisory_xact_lock_shared(holdfast.dispatch_gate(v_type)) then
      v_refused := v_refused || v_group;
      continue;
    end if;
    -- Read after the lock was taken, so that an earlier change of the switch is seen.
    select * into v_config from holdfast.dispatch_config where item_type = v_type;
    if found and not v_config.enabled then
      update holdfast.process set due_at = null, queued_at = null where id = any (v_group);
      v_refused := v_refused || v_group;
    elsif found then
      v_refused := v_refused || holdfast.refuse_late_processes(v_config, v_group);
    end if;
  end loop;
  return array(select id from unnest(ids) with ordinality as asked (id, place) where id <> all (v_refused) order by place);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.admit_dispatched_roots(ids uuid[])
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_type text;
  v_group uuid[];
  v_config holdfast.dispatch_config;
  v_tolerance interval;
  v_late uuid[];
  v_starts timestamptz[];
  v_refused uuid[] := '{}';
begin
  for v_type, v_group in
    select dispatch_type, array_agg(id)
    from holdfast.workflow
    where id = any (ids) and dispatch_type is not null and status = 'PENDING'
    group by dispatch_type
    order by dispatch_type
  loop
    if not pg_try_advisory_xact_lock_shared(holdfast.dispatch_gate(v_type)) then
      v_refused := v_refused || v_group;
      continue;
    end if;
    select * into v_config from holdfast.dispatch_config where item_type = v_type;
    continue when not found;
    if not v_config.enabled then
      update holdfast.workflow_step
      set handler = null, due_at = null, rank = null, ready = false
      where workflow_id = any (v_group) and number = -1;
      v_refused := v_refused || v_group;
      continue;
    end if;
    v_tolerance := holdfast.dispatch_tolerance(v_config);
    continue when v_tolerance is null or not exists (
      select from holdfast.workflow_step
      where workflow_id = any (v_group) and number = -1 and scheduled_at < v_now - v_tolerance
    );
    v_late := array(
      select root.workflow_id
      from holdfast.dispatch_cycle as cycle
      join holdfast.workflow on workflow.status = 'PENDING' and workflow.name = any (cycle.exec_types)
        and workflow.created_at >= coalesce(cycle.ahead_since, '-infinity') and workflow.dispatch_type = v_type
      join holdfast.workflow_step as root on root.workflow_id = workflow.id and root.number = -1
      where cycle.item_type = v_type and root.handler is not null and root.leased_at is null
        and root.scheduled_at < v_now - v_tolerance
      order by root.scheduled_at, root.workflow_id
      limit 2000
      for no key update of root skip locked
    );
    v_starts := holdfast.new_dispatch_starts(v_config, cardinality(v_late));
    if v_starts is null then
      v_refused := v_refused || v_group;
      continue;
    end if;
    update holdfast.workflow_step as root
    set scheduled_at = renewed.start_at,
        due_at = renewed.start_at,
        ready = renewed.start_at <= v_now,
        rank = holdfast.workflow_rank(renewed.start_at, root.priority, root.aging)
    from unnest(v_late, v_starts) as renewed (id, start_at)
    where root.workflow_id = renewed.id and root.number = -1;
    v_refused := v_refused || array(
      select renewed.id from unnest(v_late, v_starts) as renewed (id, start_at) where renewed.start_at > v_now and renewed.id = any (v_group)
    );
  end loop;
  return array(select id from unnest(ids) as id where id <> all (v_refused));
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.adopt_messages(p_domain text, p_now timestamp with time zone, ids bigint[], messages jsonb[], headers jsonb[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_limit int := holdfast.payload_bytes();
  v_replies jsonb;
begin
  with taken as (
    select distinct on (command_id)
      msg_id, message, command_id, header, message ->> 'reply_to' as reply_to,
      holdfast.problem_of_message(message, header, v_limit) as problem
    from unnest(ids, holdfast.command_ids_in(p_domain, messages), messages, headers) as taken (msg_id, command_id, message, header)
    where command_id is not null
      and not exists (
        select from holdfast.command where command.command_id = taken.command_id and command.domain || '' = p_domain
      )
    order by command_id, msg_id
  ),
  judged as (
    select *, jsonb_typeof(message -> 'reply_to') = 'string' and holdfast.may_reply(p_domain, reply_to) as may_reply from taken
  ),
  adopted as (
    insert into holdfast.command (
      command_id, domain, type, status, msg_id, correlation_id, reply_to, created_at, updated_at, data, notes,
      error_kind, error_code, error_message
    )
    select
      command_id,
      p_domain,
      left(message ->> 'command_type', 200),
      case when problem is null then 'PENDING' else 'IN_TROUBLESHOOTING_QUEUE' end,
      case when problem is null then msg_id end,
      holdfast.uuid_or_null(message ->> 'correlation_id'),
      case when may_reply then reply_to end,
      p_now,
      p_now,
      case when problem is null then message -> 'data' end,
      case when problem is null then nullif(header -> 'notes', 'null') end,
      case when problem is not null then 'PERMANENT' end,
      case when problem is not null then 'INVALID_MESSAGE' end,
      case when problem is not null then 'the message cannot be run: ' || problem end
    from judged
    on conflict (command_id, domain) do nothing
    returning *
  ),
  audited as (
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select p_now, 'commands', 'ADOPTED', command_id, jsonb_build_object('domain', p_domain)
    from adopted
    union all
    select p_now, 'commands', 'REPLY_FAILED', command_id,
      jsonb_build_object('domain', p_domain, 'queue', left(judged.reply_to, 200),
        'problem', 'not a reply queue of the domain ' || p_domain)
    from adopted join judged using (command_id)
    where judged.reply_to is not null and not coalesce(judged.may_reply, false)
    union all
    select p_now, 'commands', 'MOVED_TO_TSQ', command_id,
      jsonb_build_object('domain', p_domain, 'error_code', error_code, 'error_message', error_message)
    from adopted
    where error_code is not null
  ),
  troubled as (
    insert into holdfast.command_trouble (
      command_id, domain, type, since, error_kind, error_code, error_message, fingerprint
    )
    select command_id, p_domain, type, p_now, error_kind, error_code, error_message, 'INVALID_MESSAGE:' || type
    from adopted
    where error_code is not null
  )
  select jsonb_agg(jsonb_build_object('domain', p_domain, 'queue', reply_to, 'command_id', command_id, 'message', jsonb_strip_nulls(jsonb_build_object(
    'command_id', command_id, 'correlation_id', correlation_id, 'outcome', 'FAILED', 'final', false,
    'error_type', error_kind, 'error_code', error_code, 'error_message', error_message
  ))))
  into v_replies
  from adopted
  where error_code is not null and reply_to is not null;
  if v_replies is not null then
    perform holdfast.send_replies(v_replies);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.apply_dispatch_checks(p_type text, findings jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_threshold interval := (
    select stale_claim_threshold_mins * interval '1 minute' from holdfast.dispatch_config where item_type = p_type
  );
  v_missing jsonb;
  v_dead int := 0;
begin
  select jsonb_agg(jsonb_build_object(
    'type', p_type, 'id', item.item_id, 'from', item.status, 'event', 'STALE_RECOVERED',
    'code', 'EXECUTION_NOT_FOUND', 'message', 'no execution was found for a ' || lower(item.status) || ' item'
      || coalesce('; its start ended with ' || case when item.status = 'CLAIMED' then item.last_error end, '')
  ))
  into v_missing
  from jsonb_to_recordset(findings) as asked (id text, execution text, found text)
  join holdfast.dispatch_item as item on item.item_type = p_type and item.item_id = asked.id collate "C"
  where asked.found = 'NOT_FOUND'
    and item.execution_id = asked.execution
    and item.check_at <= v_now;
  if v_missing is not null then
    v_dead := holdfast.fail_dispatch_items(v_missing);
  end if;
  update holdfast.dispatch_item as item
  set check_at = v_now + v_threshold,
      status = case when asked.found = 'UNKNOWN' then item.status else 'DISPATCHED' end,
      dispatched_at = case when asked.found = 'UNKNOWN' then item.dispatched_at else coalesce(item.dispatched_at, v_now) end,
      updated_at = v_now
  from jsonb_to_recordset(findings) as asked (id text, execution text, found text)
  where item.item_type = p_type
    and item.item_id = asked.id collate "C"
    and item.execution_id = asked.execution
    and item.status in ('CLAIMED', 'DISPATCHED')
    and asked.found <> 'NOT_FOUND';
  v_dead := v_dead + holdfast.end_dispatched(
    array_agg(p_type), array_agg(asked.id), array_agg(asked.execution), array_agg(asked.found),
    array_agg(asked.code), array_agg(asked.message)
  )
  from jsonb_to_recordset(findings) as asked (id text, execution text, found text, code text, message text)
  where asked.found in ('COMPLETED', 'FAILED', 'RETRY');
  return json_build_object('recovered', coalesce(jsonb_array_length(v_missing), 0), 'dead', coalesce(v_dead, 0));
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.apply_late_response(p_id uuid, p_after integer, p_name text, p_response_id text, p_data jsonb, p_notes jsonb, p_projection jsonb, p_projection_notes jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
begin
  update holdfast.process
  set responses = responses + 1
  where id = p_id and responses = p_after and status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED');
  if not found then
    return false;
  end if;
  insert into holdfast.process_response (process_id, number, name, response_id, at, data, notes)
  values (p_id, p_after + 1, p_name, p_response_id, v_now, p_data, p_notes);
  update holdfast.process_detail
  set projection = p_projection, projection_notes = p_projection_notes, projection_responses = p_after + 1, updated_at = v_now
  where id = p_id;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  values (v_now, 'processes', 'LATE_ASYNC_RESPONSE', p_id, jsonb_build_object('response', p_name, 'number', p_after + 1));
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.apply_managed(p_queue text, writes jsonb)
 RETURNS integer[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_mine uuid[];
  v_messages bigint[];
  v_writes jsonb := writes;
  v_rests jsonb;
begin
  -- In the order of ids, which is the order of the writes.
  select array_agg(locked.id)
  into v_mine
  from jsonb_to_recordset(writes) as asked (id uuid, epoch int, from_status text, cancel text, heard int)
  cross join lateral (
    select process.id
    from holdfast.process
    where process.id = asked.id
      and process.lease_epoch = asked.epoch
      and process.status = asked.from_status
      and process.cancel is not distinct from asked.cancel
      and process.responses = asked.heard
    for no key update skip locked
  ) as locked;
  execute format(
    $query$
    select coalesce(array_agg(free.msg_id), '{}')
    from jsonb_array_elements($1) as it,
    lateral jsonb_to_recordset(it -> 'messages') as asked (msg_id bigint, read_ct int),
    lateral (
      select msg_id from pgmq.%I as q
      where q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
      for update skip locked
    ) free
    where (it ->> 'id')::uuid = any ($2)
    $query$, 'q_' || p_queue
  ) into v_messages using writes, v_mine;
  if coalesce(cardinality(v_mine), 0) < jsonb_array_length(writes)
    or cardinality(v_messages) < (select sum(jsonb_array_length(it -> 'messages')) from jsonb_array_elements(writes) as it)
  then
    select coalesce(jsonb_agg(it order by place), '[]')
    into v_writes
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
    where (it ->> 'id')::uuid = any (v_mine)
      and not exists (
        select from jsonb_array_elements(it -> 'messages') as message
        where not (message ->> 'msg_id')::bigint = any (v_messages)
      );
    v_mine := array(select (it ->> 'id')::uuid from jsonb_array_elements(v_writes) as it);
    v_messages := array(
      select (message ->> 'msg_id')::bigint
      from jsonb_array_elements(v_writes) as it, jsonb_array_elements(it -> 'messages') as message
    );
  end if;

  if cardinality(v_mine) > 0 then
    insert into holdfast.process_history (
      process_id, generation, seq, epoch, at, kind, name, occurrence, status, attempt, result, notes, detail
    )
    select
      asked.id, asked.generation, event.seq, asked.epoch + 1, v_now, event.kind, event.name, event.occurrence, event.status,
      event.attempt, event.result, event.notes, event.detail
    from jsonb_to_recordset(v_writes) as asked (id uuid, epoch int, generation int, events jsonb)
    cross join lateral jsonb_to_recordset(asked.events) as event (
      seq int, kind text, name text, occurrence int, status text, attempt int, result jsonb, notes jsonb, detail jsonb
    );
    insert into holdfast.process_response (process_id, number, name, response_id, at, data)
    select asked.id, kept.number, '@reply', kept.response_id, v_now, kept.data
    from jsonb_to_recordset(v_writes) as asked (id uuid, keep jsonb)
    cross join lateral jsonb_to_recordset(asked.keep) as kept (number int, response_id text, data jsonb);
    update holdfast.process
    set responses = responses + jsonb_array_length(asked.keep)
    from jsonb_to_recordset(v_writes) as asked (id uuid, epoch int, keep jsonb)
    where process.id = asked.id and jsonb_array_length(asked.keep) > 0 and asked.epoch = asked.epoch + 0;

    if v_writes @? '$[*].events[*] ? (@.seq == 1)' then
      -- Through SQL it was started like any process.
      update holdfast.process_detail
      set model = 'STEP_BASED'
      from jsonb_to_recordset(v_writes) as asked (id uuid, events jsonb)
      where process_detail.id = asked.id and model <> 'STEP_BASED' and asked.events @? '$[*] ? (@.seq == 1)';
    end if;
    select jsonb_agg(it) into v_rests from jsonb_array_elements(v_writes) as it where it ? 'to_status';
    if v_rests is not null then
      perform holdfast.rest_processes(v_rests, v_now);
      delete from holdfast.process_trouble
      where id = any (array(
        select (it ->> 'id')::uuid
        from jsonb_array_elements(v_rests) as it
        where it ->> 'from_status' = 'WAITING_FOR_TSQ' and it ->> 'to_status' <> 'WAITING_FOR_TSQ'
      ));
    end if;
    if v_writes @> '[{"late": true}]' then
      perform holdfast.patch_ended(v_writes, v_now);
    end if;
    if cardinality(v_messages) > 0 then
      execute format('delete from pgmq.%I where msg_id = any ($1)', 'q_' || p_queue) using v_messages;
    end if;
    perform holdfast.send_for_processes(v_writes);
  end if;

  if cardinality(v_mine) = jsonb_array_length(writes) then
    return array_fill(0, array[jsonb_array_length(writes)]);
  end if;
  return array(
    select case
      when asked.id = any (v_mine) or process.last_write = asked.token then 0
      when process.id is not null
        and process.lease_epoch = asked.epoch
        and process.status = asked.from_status
        and process.cancel is not distinct from asked.cancel
        and process.responses = asked.heard
        and asked.id <> all (coalesce(v_mine, '{}'))
        and not holdfast.replies_are_lost(p_queue, asked.messages) then 2
      else 3
    end
    from rows from (
      jsonb_to_recordset(writes) as (
        id uuid, epoch int, token uuid, from_status text, cancel text, heard int, messages jsonb
      )
    ) with ordinality as asked (id, epoch, token, from_status, cancel, heard, messages, place)
    left join holdfast.process on process.id = asked.id
    order by asked.place
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.await_results(p_model text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  insert into holdfast.result_wait (model, until)
  values (p_model, holdfast.now() + interval '30 seconds')
  on conflict (model) do update set until = excluded.until
  where result_wait.until < excluded.until - interval '5 seconds'
$function$
;

CREATE OR REPLACE FUNCTION holdfast.bucket_lead(bucket holdfast.rate_limit_bucket, rate double precision, burst integer, at timestamp with time zone)
 RETURNS double precision
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_lead float8 := extract(epoch from bucket.full_at - at) * 1e6;
  v_old_step float8 := 1e6 / bucket.tickets_per_second;
  v_step float8 := 1e6 / rate;
  v_last_slot float8;
begin
  -- A clock that was set back counts as having stood still: the lead is the old one. Otherwise the key would be closed until the clock
  -- has caught up. Up to one second is ignored, because the result is exact then too.
  if bucket.written_at - at > interval '1 second' then
    v_lead := extract(epoch from bucket.full_at - bucket.written_at) * 1e6;
  end if;
  v_lead := greatest(v_lead, 0);
  if bucket.tickets_per_second = rate and bucket.burst = burst then
    return v_lead;
  end if;
  -- The configuration has changed. Reserved slots stay where they are, and the new rate begins after the last of them. If nothing is
  -- reserved ahead, the bucket keeps its content as far as it fits the new size.
  v_last_slot := v_lead - bucket.burst * v_old_step;
  if v_last_slot > 0 then
    return v_last_slot + burst * v_step;
  end if;
  return greatest(burst - (bucket.burst - v_lead / v_old_step), 0) * v_step;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.call_id(p_name text, p_occurrence integer)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select p_name || case when p_occurrence > 1 then '#' || p_occurrence else '' end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.call_off_command(p_domain text, p_command_id uuid, p_actor text, p_reason text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_answer text := holdfast.cancel_command(p_domain, p_command_id, p_actor, p_reason);
begin
  if v_answer = 'ended' and exists (
    select from holdfast.command_trouble as trouble
    join holdfast.command using (domain, command_id)
    where trouble.domain = p_domain
      and trouble.command_id = p_command_id
      and command.effect is null
  ) then
    perform holdfast.operate_commands('CANCEL', p_domain, array[p_command_id], p_actor, p_reason, null, null, null);
    return 'done';
  end if;
  return v_answer;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.call_off_managed(p_id uuid, p_generation integer, p_actor text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_domain text;
  v_command_id uuid;
begin
  select command.domain, command.command_id
  into v_domain, v_command_id
  from (
    select history.kind, history.detail ->> 'startedId' as started_id
    from holdfast.process_history as history
    where history.process_id = p_id
      and history.generation = p_generation
      and history.kind not in ('RETRY', 'RESUME', 'UNWIND')
    order by history.seq desc
    limit 1
  ) as last
  join holdfast.command on command.command_id = last.started_id::uuid and command.correlation_id = p_id
  where last.kind = 'COMMAND'
    and exists (select from holdfast.process_detail where id = p_id and model = 'STEP_BASED');
  if found then
    perform holdfast.call_off_command(v_domain, v_command_id, p_actor, 'its process was cancelled');
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.cancel_command(p_domain text, p_command_id uuid, p_actor text, p_reason text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_command holdfast.command;
  v_queue text;
  v_removed bigint;
begin
  select * into v_command from holdfast.command where command_id = p_command_id and domain = p_domain;
  if v_command.command_id is null then
    return 'unknown';
  elsif v_command.status <> 'PENDING' then
    return 'ended';
  end if;
  -- The lock on the message decides: a worker that is receiving it holds that lock. If the queue was dropped, no worker can receive the
  -- command.
  v_queue := (select queue from holdfast.command_queue where domain = p_domain);
  if holdfast.queue_exists(v_queue) then
    execute format(
      $query$
      delete from pgmq.%1$I where msg_id = (
        select msg_id from pgmq.%1$I where msg_id = $1 and read_ct = 0 for update skip locked
      ) returning msg_id
      $query$, 'q_' || v_queue
    ) into v_removed using v_command.msg_id;
    if v_removed is null then
      return 'started';
    end if;
  end if;
  update holdfast.command
  set status = 'CANCELLED', updated_at = v_now, msg_id = null
  where command_id = p_command_id and domain = p_domain;
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, detail, before, after)
  values (v_now, 'commands', 'OPERATOR_CANCEL', p_command_id, p_actor, p_reason, jsonb_build_object('domain', p_domain),
    '{"status": "PENDING"}', '{"status": "CANCELLED"}');
  perform holdfast.leave_batches(p_domain, array[p_command_id], v_now);
  if v_command.reply_to is not null then
    perform holdfast.send_replies(jsonb_build_array(jsonb_build_object(
      'domain', p_domain, 'queue', v_command.reply_to, 'command_id', p_command_id,
      'message', jsonb_strip_nulls(jsonb_build_object(
        'command_id', p_command_id, 'correlation_id', v_command.correlation_id, 'outcome', 'CANCELLED', 'final', true,
        'effect', v_command.effect
      ))
    )));
  end if;
  return 'done';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.cancel_process(p_id uuid, p_mode text, p_actor text, p_reason text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.id is null then
    return 'unknown';
  end if;
  if v_row.status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED') then
    return v_row.status;
  end if;
  -- Another operator was told that it will be compensated.
  if p_mode = 'PLAIN'
    and v_row.cancel = 'COMPENSATE'
    and v_row.status <> 'WAITING_FOR_TSQ'
    and not holdfast.process_is_unwinding(p_id, v_row.generation)
  then
    return 'being cancelled';
  end if;
  update holdfast.process
  set cancel = p_mode,
      due_at = case when leased_at is null then v_now else due_at end,
      queued_at = null,
      -- It no longer waits for an operator, so that it cannot be retried while it is being cancelled.
      status = case
        when status <> 'WAITING_FOR_TSQ' then status
        when holdfast.process_is_unwinding(p_id, generation) then 'COMPENSATING'
        else 'PENDING'
      end
  where id = p_id;
  if v_row.status = 'WAITING_FOR_TSQ' then
    perform holdfast.process_goes_on(p_id, v_now);
  end if;
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, detail)
  values (v_now, 'processes', case when v_row.status = 'WAITING_FOR_TSQ' then 'TSQ_CANCEL' else 'CANCEL_REQUESTED' end,
    p_id, p_actor, p_reason, v_before, jsonb_build_object('compensate', p_mode = 'COMPENSATE'));
  perform holdfast.call_off_managed(p_id, v_row.generation, p_actor);
  perform holdfast.wake('processes:' || v_row.type);
  if v_row.leased_at is not null then
    perform holdfast.wake('processes:live');
  end if;
  return 'done';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.carry_out_dispatch_config()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_before jsonb := to_jsonb(old) - 'updated_at';
  v_after jsonb := to_jsonb(new) - 'updated_at';
  v_actor text := coalesce(nullif(current_setting('hf_dispatch.actor', true), ''), session_user::text);
  v_reason text := coalesce(nullif(current_setting('hf_dispatch.reason', true), ''), 'changed by SQL');
  v_held int;
begin
  if v_before = v_after then
    return null;
  end if;
  if old.enabled and not new.enabled then
    v_held := holdfast.hold_dispatched(new.item_type, new.engine);
  elsif new.enabled and not old.enabled then
    v_held := holdfast.unhold_dispatched(new.item_type, new.engine);
  end if;
  -- The next cycle uses the change at once, not after the old interval. A cycle that a worker has leased is not changed: it may be
  -- waiting for this very row, and reads the configuration again by itself.
  update holdfast.dispatch_cycle
  set due_at = holdfast.now()
  where item_type = any (array(
    select item_type
    from holdfast.dispatch_cycle
    where item_type = new.item_type and leased_at is null
    for no key update skip locked
  ));
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after, detail)
  select holdfast.now(), 'dispatch', 'CONFIGURED', new.item_type, v_actor, v_reason,
    (select jsonb_object_agg(key, value) from jsonb_each(v_before) where value is distinct from v_after -> key),
    (select jsonb_object_agg(key, value) from jsonb_each(v_after) where value is distinct from v_before -> key),
    case when v_held is not null then jsonb_build_object('executionsNotBegun', v_held) end;
  perform holdfast.wake('dispatch');
  return null;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.check_apart(p_function text, p_options jsonb, p_names text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if p_options ->> p_names[1] is not null and p_options ->> p_names[2] is not null then
    perform holdfast.refuse_option(p_function, p_names[2], format('goes without `%s`: give one of them', p_names[1]));
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.check_dispatch_config()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_column text;
  v_low numeric;
  v_high numeric;
  v_value numeric;
begin
  if to_jsonb(new) - array['rate_limit_key', 'max_batches_ahead', 'trip_after', 'exec_workflow_type', 'exec_task_queue'] @? '$.* ? (@ == null)' then
    select key into v_column
    from jsonb_each(to_jsonb(new) - array['rate_limit_key', 'max_batches_ahead', 'trip_after', 'exec_workflow_type', 'exec_task_queue'])
    where value = 'null' limit 1;
    raise exception '% must not be null', v_column using errcode = 'check_violation', column = v_column;
  end if;
  for v_column, v_low, v_high in values
    ('batch_size', 1, 100000),
    ('dispatch_interval_secs', 0, 86400),
    ('jitter_window_ms', 0, 86400000),
    ('pre_start_buffer_mins', 0, 1440),
    ('max_dispatch_retries', 1, 1000),
    ('stale_claim_threshold_mins', 0.001, 1440),
    ('max_stale_recovery_per_cycle', 1, 10000),
    ('max_batches_ahead', 1, 100000),
    ('trip_after', 1, 1000000)
  loop
    -- NaN and infinity are strings in JSON, and out of every range.
    v_value := case when to_jsonb(new) ->> v_column ~ '^[-+0-9.eE]+$' then (to_jsonb(new) ->> v_column)::numeric end;
    if to_jsonb(new) ->> v_column is not null and (v_value is null or v_value not between v_low and v_high) then
      raise exception '% must be from % to %, not %', v_column, v_low, v_high, to_jsonb(new) ->> v_column
        using errcode = 'check_violation', column = v_column;
    end if;
  end loop;
  if new.engine = 'PROCESS' and new.exec_workflow_type is not null
    and not exists (select from holdfast.worker_definition where model = 'processes' and name = new.exec_workflow_type)
  then
    raise exception 'exec_workflow_type names `%`, which no worker has registered', new.exec_workflow_type
      using errcode = 'check_violation', column = 'exec_workflow_type';
  end if;
  if new.engine = 'WORKFLOW' and new.exec_workflow_type is not null
    and not exists (
      select from holdfast.workflow_definition
      where new.exec_workflow_type in (name, name || '-v' || version)
    )
  then
    raise exception 'exec_workflow_type names `%`, which is no workflow that is stored', new.exec_workflow_type
      using errcode = 'check_violation', column = 'exec_workflow_type';
  end if;
  if new.rate_limit_key is not null
    and not exists (select from holdfast.rate_limit where resource_key = new.rate_limit_key)
  then
    raise exception 'rate_limit_key names `%`, which is no rate limit', new.rate_limit_key
      using errcode = 'check_violation', column = 'rate_limit_key';
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := holdfast.now();
  end if;
  return new;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.check_options(p_function text, p_options jsonb, p_known text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.check_payload(p_what text, p_value jsonb)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_bytes int := octet_length(p_value::text);
begin
  if v_bytes > holdfast.payload_bytes() then
    raise exception 'HF_TOO_LARGE: % takes % bytes; the limit is %', p_what, v_bytes, holdfast.payload_bytes()
      using errcode = 'program_limit_exceeded', hint = 'Store it elsewhere and send a reference to it.';
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.chore_claim(lanes text[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer, OUT items json, OUT next_due_ms double precision)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_now timestamptz := holdfast.now();
        v_lanes text[] := array(
          select it.name
          from holdfast.chore as it
          where it.name = any (lanes) and it.due_at <= v_now and (it.leased_at is null or not spare_leased)
          order by it.due_at
          limit most
          for no key update skip locked
        );
      begin
        with claimed as (
          update holdfast.chore as it
          set due_at = v_now + lease_ms * interval '1 ms', lease_epoch = lease_epoch + 1, leased_by = worker, leased_at = v_now
          where it.name = any (v_lanes)
          returning it.name as lane, it.lease_epoch
        )
        select coalesce(json_agg(json_build_object('id', lane, 'type', lane, 'epoch', lease_epoch)), '[]') into items from claimed;
        select extract(epoch from min(it.due_at) - v_now) * 1000
        into next_due_ms
        from holdfast.chore as it
        where it.name = any (lanes) and it.due_at > v_now and it.due_at <= v_now + ceiling_ms * interval '1 ms';
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.claim_dispatch_cycles(lanes text[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer, OUT items json, OUT next_due_ms double precision)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_now timestamptz := holdfast.now();
        v_lanes text[] := array(
          select it.item_type
          from holdfast.dispatch_cycle as it
          where it.item_type = any (lanes) and it.due_at <= v_now and (it.leased_at is null or not spare_leased)
          order by it.due_at
          limit most
          for no key update skip locked
        );
      begin
        with claimed as (
          update holdfast.dispatch_cycle as it
          set due_at = v_now + lease_ms * interval '1 ms', lease_epoch = lease_epoch + 1, leased_by = worker, leased_at = v_now
          where it.item_type = any (v_lanes)
          returning it.item_type as lane, it.lease_epoch
        )
        select coalesce(json_agg(json_build_object('id', lane, 'type', lane, 'epoch', lease_epoch)), '[]') into items from claimed;
        select extract(epoch from min(it.due_at) - v_now) * 1000
        into next_due_ms
        from holdfast.dispatch_cycle as it
        where it.item_type = any (lanes) and it.due_at > v_now and it.due_at <= v_now + ceiling_ms * interval '1 ms';
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.claim_dispatch_items(request jsonb, from_due timestamp with time zone, from_seq bigint, slots double precision[])
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_type text := request ->> 'type';
  v_config holdfast.dispatch_config;
  v_until timestamptz;
  v_most int;
  v_retries int;
  v_ids text[];
  v_last_due timestamptz;
  v_last_seq bigint;
  v_items json;
  v_bad jsonb;
begin
  if not holdfast.hold_dispatch_cycle(v_type, (request ->> 'epoch')::int) then
    return '{"outcome": "lost"}';
  end if;
  select * into v_config from holdfast.dispatch_config where item_type = v_type for share;
  if not found or not v_config.enabled or holdfast.is_dispatch_paused(v_type) then
    return '{"outcome": "off"}';
  end if;
  -- At most one cycle ahead: an item that was handed over cannot be held back any more (D-04).
  v_until := v_now + case when slots is null then least(
    v_config.pre_start_buffer_mins * interval '1 minute', v_config.dispatch_interval_secs * interval '1 second'
  ) else interval '0' end;
  -- Slots that passed before they were used are not used any more (D-14).
  if slots is not null then
    slots := array(
      select slot
      from unnest(slots) with ordinality as granted (slot, place)
      where slot >= extract(epoch from v_now - interval '250 ms') * 1000
      order by place
    );
  end if;
  v_most := least((request ->> 'most')::int, cardinality(slots));
  if v_most = 0 then
    return json_build_object('outcome', 'claimed', 'items', json_build_array(), 'claimed', 0, 'full', false);
  end if;
  select retry_count
  into v_retries
  from holdfast.dispatch_item
  where item_type = v_type and (due_at, seq) > (coalesce(from_due, '-infinity'), coalesce(from_seq, 0)) and due_at <= v_until
  order by due_at, seq
  limit 1;
  v_most := greatest(1, v_most / 4 ^ least(v_retries, 10));
  -- After a start that failed, fewer items are tried.
  if (select failures_in_row > 0 from holdfast.dispatch_cycle where item_type = v_type) then
    v_most := greatest(1, v_most / 4);
  end if;

  select * into v_ids, v_last_due, v_last_seq
  from holdfast.lock_due_items(v_type, from_due, from_seq, v_until, v_most);
  if v_ids is null then
    return json_build_object('outcome', 'claimed', 'items', json_build_array(), 'claimed', 0, 'full', false);
  end if;

  with claimed as (
    update holdfast.dispatch_item as item
    set status = 'CLAIMED',
        due_at = null,
        check_at = v_now + v_config.stale_claim_threshold_mins * interval '1 minute',
        batch_id = (request ->> 'batch')::uuid,
        execution_id = holdfast.next_execution_id(item_type, item_id, failed_executions, execution_id),
        claimed_at = v_now,
        last_error = null,
        updated_at = v_now
    where item_type = v_type and item_id = any (v_ids) and status = 'READY'
    returning item.*
  ),
  batch as (
    select claimed.*, context.context, context.notes, context.context_version, context.checked,
      case
        when slots is not null then greatest(claimed.exec_time, to_timestamp(slots[row_number() over ()] / 1000))
        else greatest(claimed.exec_time, v_now) + random() * v_config.jitter_window_ms * interval '1 ms'
      end as start_at
    from claimed
    left join lateral (
      select *
      from holdfast.dispatch_context
      where dispatch_context.item_type = v_type and dispatch_context.item_id = claimed.item_id
    ) as context on true
  )
  select
    json_agg(json_build_object(
      'itemId', item_id, 'executionId', execution_id, 'context', context, 'notes', notes, 'checked', checked,
      'contextVersion', context_version, 'initWorkflowId', init_workflow_id, 'retryCount', retry_count,
      'startAtMs', extract(epoch from start_at) * 1000, 'startDelayMs', extract(epoch from start_at - v_now) * 1000
    )) filter (where context is not null),
    jsonb_agg(jsonb_build_object(
      'type', v_type, 'id', item_id, 'from', 'CLAIMED', 'event', 'START_FAILED',
      'code', 'CONTEXT_MISSING', 'message', 'the context of the item is missing'
    )) filter (where context is null)
  into v_items, v_bad
  from batch;
  if v_bad is not null then
    perform holdfast.fail_dispatch_items(v_bad);
  end if;
  return json_build_object(
    'outcome', 'claimed', 'items', coalesce(v_items, '[]'), 'claimed', cardinality(v_ids),
    'missing', coalesce(jsonb_array_length(v_bad), 0), 'full', cardinality(v_ids) = v_most,
    'lastDue', v_last_due::text, 'lastSeq', v_last_seq::text
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.claim_inbox_groups(lane_types text[], lane_froms double precision[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer)
 RETURNS TABLE(items json, marks json, next_due_ms double precision)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_type text;
  v_refs text[];
  v_ref text;
  v_names text[];
  v_taken text[];
  v_last timestamptz;
  v_count int;
  v_left int := most;
  v_item json;
  v_items json[] := '{}';
  v_marks json[] := '{}';
  v_next timestamptz;
  v_lane_next timestamptz;
begin
  for v_lane in 1 .. cardinality(lane_types) loop
    exit when v_left <= 0;
    v_type := lane_types[v_lane];
    v_taken := '{}';
    select array_agg(due.process_ref order by due.due_at), max(due.due_at), count(*)
    into v_refs, v_last, v_count
    from (
      select process_ref, due_at
      from holdfast.process_inbox
      where type = v_type
        and due_at between coalesce(to_timestamp(lane_froms[v_lane] / 1000), '-infinity') and v_now
        and (leased_at is null or not spare_leased)
      order by due_at
      limit v_left
      for no key update skip locked
    ) due;
    foreach v_ref in array coalesce(v_refs, '{}') loop
      continue when v_ref = any (v_taken);
      v_names := holdfast.inbox_names(v_type, v_ref);
      v_taken := v_taken || v_names;
      v_item := holdfast.lease_inbox_group(v_type, v_names, worker, v_now, lease_ms);
      if v_item is not null then
        v_items := v_items || v_item;
      end if;
    end loop;
    v_marks := v_marks || json_build_object(
      'type', v_type,
      'mark', case when v_count < v_left then v_newest_mark
        else least(v_newest_mark, floor(extract(epoch from v_last) * 1000)) end
    );
    v_left := v_left - v_count;
    if v_left > 0 then
      select due_at into v_lane_next
      from holdfast.process_inbox
      where type = v_type and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1;
      v_next := least(v_next, v_lane_next);
    end if;
  end loop;
  return query select array_to_json(v_items), array_to_json(v_marks), extract(epoch from v_next - v_now)::float8 * 1000;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.claim_limited_processes(p_type text, p_version integer, p_limit integer, p_most integer, spare_leased boolean)
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_limit int;
  v_free int;
  v_crashed uuid[];
  v_new uuid[] := '{}';
  v_due uuid[];
begin
  if not pg_try_advisory_xact_lock(holdfast.slots_lock(p_type)) then
    return null;
  end if;
  -- Read under the lock: the limit may have been removed since the caller read it.
  v_limit := coalesce((select concurrency from holdfast.process_setting where type = p_type), p_limit);
  if v_limit is null then
    return null;
  end if;
  v_crashed := array(
    select process.id
    from holdfast.process
    join holdfast.process_slot on process_slot.process_id = process.id
    where process.type = p_type and version = p_version and due_at <= v_now and leased_at is not null and not spare_leased
    order by due_at
    limit p_most
    for no key update of process skip locked
  );
  v_free := v_limit - holdfast.count_slots(p_type, v_limit);
  v_free := least(v_free, p_most - cardinality(v_crashed));
  if v_free > 0 and not spare_leased then
    v_new := array(
      select id from holdfast.process
      where type = p_type and version = p_version and due_at <= v_now and leased_at is not null
        and not exists (select from holdfast.process_slot where process_id = process.id)
      order by due_at
      limit v_free
      for no key update skip locked
    );
  end if;
  if v_free > cardinality(v_new) then
    v_new := v_new || array(
      select id from holdfast.process
      where type = p_type and queued_at is not null and version = p_version
      order by queued_at
      limit v_free - cardinality(v_new)
      for no key update skip locked
    );
  end if;
  v_due := array(
    select id from holdfast.process
    where type = p_type and version = p_version and due_at <= v_now and leased_at is null
    order by due_at
    limit greatest(p_most, 1000)
    for no key update skip locked
  );
  v_free := v_free - cardinality(v_new);
  if v_free > 0 then
    v_new := v_new || v_due[1:v_free];
    v_due := v_due[v_free + 1:];
  end if;
  if exists (select from holdfast.process where id = any (v_new) and dispatch_type is not null) then
    v_new := holdfast.admit_dispatched(v_new);
    -- Those that got a later start are not due any more.
    v_due := array(
      select id from unnest(v_due) with ordinality as due (id, place)
      where exists (select from holdfast.process where process.id = due.id and due_at <= v_now)
      order by place
    );
  end if;
  update holdfast.process set queued_at = due_at, due_at = null where id = any (v_due);
  insert into holdfast.process_slot (process_id, type)
  select id, p_type from unnest(v_new) as id
  on conflict do nothing;
  return nullif(v_crashed || v_new, '{}');
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.claim_processes(lane_types text[], lane_versions integer[], lane_limits integer[], lane_froms double precision[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer)
 RETURNS TABLE(items json, marks json, next_due_ms double precision)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET enable_sort TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_type text;
  v_limit int;
  v_ids uuid[] := '{}';
  v_lane_ids uuid[];
  v_lost uuid[] := '{}';
  v_lane_lost uuid[];
  v_items json := '[]';
  v_last timestamptz;
  v_left int := most;
  v_marks json[] := '{}';
  v_next timestamptz;
  v_lane_next timestamptz;
  v_dispatched boolean;
  v_found int;
begin
  for v_lane in 1 .. cardinality(lane_types) loop
    exit when v_left <= 0;
    v_type := lane_types[v_lane];
    continue when holdfast.is_paused(array['domain:' || split_part(v_type, '/', 1), 'definition:' || v_type]);
    v_limit := coalesce((select concurrency from holdfast.process_setting where type = v_type), lane_limits[v_lane]);
    if v_limit is not null then
      -- No watermark: a limited lane is claimed under a lock, and a worker that does not get the lock tries again.
      v_lane_ids := holdfast.claim_limited_processes(v_type, lane_versions[v_lane], lane_limits[v_lane], v_left, spare_leased);
      v_lane_lost := array(select id from holdfast.process where id = any (v_lane_ids) and leased_at is not null);
    else
      for v_try in 1 .. 2 loop
        select array_agg(due.id), max(due.due_at), bool_or(due.dispatched), count(*),
          array_agg(due.id) filter (where due.leased_at is not null)
        into v_lane_ids, v_last, v_dispatched, v_found, v_lane_lost
        from (
          select id, due_at, leased_at, dispatch_type is not null as dispatched
          from holdfast.process
          where type = v_type
            and version = lane_versions[v_lane]
            and due_at >= coalesce(to_timestamp(lane_froms[v_lane] / 1000), '-infinity')
            and due_at <= v_now
            and (leased_at is null or not spare_leased)
          order by due_at
          limit v_left
          for no key update skip locked
        ) due;
        exit when v_dispatched is not true;
        -- An execution that dispatch does not let begin now is due later, and makes room for the next ones.
        v_lane_ids := holdfast.admit_dispatched(v_lane_ids);
        exit when cardinality(v_lane_ids) = v_found;
      end loop;
      -- No watermark if some were refused and are still due.
      if v_dispatched is not true or cardinality(v_lane_ids) = v_found then
        v_marks := v_marks || json_build_object(
          'type', v_type || '@' || lane_versions[v_lane],
          'mark', case when coalesce(cardinality(v_lane_ids), 0) < v_left then v_newest_mark
            else least(v_newest_mark, floor(extract(epoch from v_last) * 1000)) end
        );
      end if;
    end if;
    if v_lane_ids is not null then
      v_left := v_left - cardinality(v_lane_ids);
      v_ids := v_ids || v_lane_ids;
      -- Dispatch may have refused some of them.
      v_lost := v_lost || array(select id from unnest(v_lane_lost) as id where id = any (v_lane_ids));
    end if;
    if v_left > 0 then
      select due_at into v_lane_next
      from holdfast.process
      where type = v_type
        and version = lane_versions[v_lane]
        and due_at > v_now
        and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1;
      v_next := least(v_next, v_lane_next);
    end if;
  end loop;
  if cardinality(v_ids) > 0 then
    v_items := holdfast.lease_processes(v_ids, worker, lease_ms);
    if cardinality(v_lost) > 0 then
      v_items := holdfast.weigh_lost_processes(v_items, v_lost);
    end if;
  end if;
  return query select
    v_items,
    array_to_json(v_marks),
    extract(epoch from v_next - v_now)::float8 * 1000;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.claim_replies(p_queue text, p_domain text, p_from double precision, p_most integer, p_lease_ms integer, p_spare_leased boolean, p_ceiling_ms integer)
 RETURNS TABLE(items json, managed json, known json, mark double precision, next_due_ms double precision, unknown json, malformed integer)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_table text := 'q_' || p_queue;
  v_ids bigint[];
  v_reads int[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_last timestamptz;
  v_next timestamptz;
  v_count int;
  v_items json;
  v_managed json;
  v_known json;
  v_asked jsonb;
  v_gone json;
  v_strays bigint[];
  v_foreign bigint[];
  v_paused bigint[];
begin
  if holdfast.is_paused(array['domain:' || p_domain]) then
    return query select '[]'::json, null::json, null::json, null::float8, null::float8, null::json, 0;
    return;
  end if;
  execute format(
    $query$
    select array_agg(due.msg_id), max(due.vt)
    from (
      select msg_id, vt
      from pgmq.%I
      where vt >= coalesce(to_timestamp($1 / 1000), '-infinity')
        and vt <= $2
        and (read_ct = 0 or not $3)
      order by vt
      limit $4
      for update skip locked
    ) due
    $query$, v_table
  ) into v_ids, v_last using p_from, v_now, p_spare_leased, p_most;
  v_count := coalesce(cardinality(v_ids), 0);

  if v_count > 0 then
    execute format(
      $query$
      with taken as (
        update pgmq.%I
        set vt = $1, read_ct = read_ct + 1
        where msg_id = any ($2)
        returning msg_id, read_ct, message, headers
      )
      select array_agg(msg_id order by msg_id), array_agg(read_ct order by msg_id), array_agg(message order by msg_id),
        array_agg(headers order by msg_id)
      from taken
      $query$, v_table
    ) into v_ids, v_reads, v_messages, v_headers using v_now + p_lease_ms * interval '1 ms', v_ids;
    select opened.items, opened.asked, opened.unknown, opened.strays, opened.malformed, opened.paused
    into v_items, v_asked, v_gone, v_strays, v_foreign, v_paused
    from holdfast.open_replies(p_domain, v_ids, v_reads, v_messages, v_headers) as opened;
    if v_asked is not null then
      v_managed := holdfast.managed_processes(v_asked);
      v_known := holdfast.known_replies(v_asked);
    end if;
    if v_strays is not null then
      perform pgmq.delete(p_queue, v_strays);
    end if;
    if v_foreign is not null then
      perform pgmq.archive(p_queue, v_foreign);
    end if;
    if v_paused is not null then
      -- Claimed again after a second: a resume wakes up the workers of the definition, but this queue belongs to the domain.
      execute format('update pgmq.%I set vt = $1, read_ct = read_ct - 1 where msg_id = any ($2)', v_table)
      using v_now + interval '1 s', v_paused;
    end if;
  end if;
  if v_count < p_most then
    execute format(
      'select vt from pgmq.%I where vt > $1 and vt <= $1 + $2 * interval ''1 ms'' order by vt limit 1', v_table
    ) into v_next using v_now, p_ceiling_ms;
  end if;
  return query select
    coalesce(v_items, '[]'::json),
    v_managed,
    v_known,
    case when v_count < p_most then v_newest_mark else least(v_newest_mark, floor(extract(epoch from v_last) * 1000)) end,
    extract(epoch from v_next - v_now)::float8 * 1000,
    v_gone,
    coalesce(cardinality(v_foreign), 0);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.claim_workflow_steps(handlers text[], worker text, most integer, p_lease_ms integer, p_beat_ms integer, spare_leased boolean, ceiling_ms integer)
 RETURNS TABLE(items json, next_due_ms double precision)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_handlers text[] := handlers;
  v_paused int[];
  -- How many of each handler's first steps may be claimed, where paused steps are being set aside.
  v_free int[];
  v_ids uuid[];
  v_numbers smallint[];
  v_fresh boolean[];
  v_leases int[];
  v_lost uuid[];
  v_lost_numbers smallint[];
  v_room int;
  v_starts uuid[];
  v_admitted uuid[];
  v_next timestamptz;
  v_items json;
begin
  if exists (select from holdfast.pause) then
    v_handlers := array(select it from unnest(handlers) as it where not holdfast.is_paused(array['handler:' || it]));
    v_paused := array(
      select definition.id
      from holdfast.workflow_definition as definition
      where holdfast.is_paused(array['domain:' || split_part(definition.name, '/', 1), 'definition:' || definition.name])
    );
  end if;
  if exists (select from holdfast.workflow_set_aside) then
    perform holdfast.take_back_workflow_steps(v_paused);
  end if;
  -- Delayed steps that have fallen due, and leases that have ended.
  with due as (
    select it.workflow_id, it.number
    from unnest(v_handlers) as wanted
    cross join lateral (
      select workflow_id, number
      from holdfast.workflow_step
      where handler = wanted and not ready and due_at <= v_now and (leased_at is null or not spare_leased)
      order by due_at
      limit greatest(4 * most, 1000)
      for no key update skip locked
    ) as it
  )
  update holdfast.workflow_step as step
  set ready = true, leased_by = null, leased_at = null
  from due
  where step.workflow_id = due.workflow_id and step.number = due.number;

  if cardinality(v_paused) > 0 then
    v_free := holdfast.set_aside_workflow_steps(v_handlers, v_paused, most + 1000);
  end if;
  select array_agg(it.workflow_id), array_agg(it.number), array_agg(it.fresh), array_agg(it.lease_ms)
  into v_ids, v_numbers, v_fresh, v_leases
  from (
    select workflow_id, number, false as fresh, greatest(p_lease_ms, p_beat_ms) as lease_ms
    from holdfast.workflow_step
    where abort and due_at <= v_now and (leased_at is null or not spare_leased)
    order by due_at
    limit most
    for no key update skip locked
  ) as it;
  v_room := most - coalesce(cardinality(v_ids), 0);

  select v_ids || array_agg(it.workflow_id), v_numbers || array_agg(it.number), v_fresh || array_agg(it.fresh),
    v_leases || array_agg(it.lease_ms)
  into v_ids, v_numbers, v_fresh, v_leases
  from (
    select found.workflow_id, found.number, found.fresh,
      -- Never shorter than the lease that the worker's heartbeat is set up for.
      greatest(
        coalesce((select lease_ms from holdfast.workflow_definition where id = found.definition_id), p_lease_ms), p_beat_ms
      ) as lease_ms
    from unnest(v_handlers) with ordinality as lane (wanted, place)
    cross join lateral (
      select workflow_id, number, definition_id, rank, scheduled_at,
        not in_flight and status = case when compensates then 'COMPENSATING' else 'PENDING' end as fresh
      from holdfast.workflow_step
      where handler = wanted and ready and not abort and (v_paused is null or definition_id <> all (v_paused))
        -- A lost call that a claim without room for it has made ready.
        and (not spare_leased or not in_flight)
      order by rank, scheduled_at
      limit least(v_room, v_free[lane.place])
      for no key update skip locked
    ) as found
    order by found.rank, found.scheduled_at
    limit v_room
  ) as it;
  if -1 = any (v_numbers) then
    -- Starts of dispatched instances: those that dispatch does not let begin now are due later.
    v_starts := array(select id from unnest(v_ids, v_numbers) as it (id, number) where number = -1);
    v_admitted := holdfast.admit_dispatched_roots(v_starts);
    if cardinality(v_admitted) < cardinality(v_starts) then
      select array_agg(it.id order by place), array_agg(it.number order by place), array_agg(it.fresh order by place),
        array_agg(it.lease order by place)
      into v_ids, v_numbers, v_fresh, v_leases
      from unnest(v_ids, v_numbers, v_fresh, v_leases) with ordinality as it (id, number, fresh, lease, place)
      where it.number <> -1 or it.id = any (v_admitted);
    end if;
  end if;
  if v_ids is not null then
    with claimed as (
      update holdfast.workflow_step as step
      set ready = false,
          due_at = v_now + asked.lease_ms * interval '1 ms',
          lease_epoch = step.lease_epoch + 1,
          leased_by = worker,
          leased_at = v_now,
          in_flight = step.in_flight or asked.fresh,
          status = case when asked.fresh and not compensates then 'RUNNING' else step.status end,
          attempts = attempts + (asked.fresh and not compensates)::int,
          compensation_attempts = compensation_attempts + (asked.fresh and compensates)::int,
          started_at = coalesce(started_at, v_now)
      from unnest(v_ids, v_numbers, v_fresh, v_leases) as asked (id, number, fresh, lease_ms)
      where step.workflow_id = asked.id and step.number = asked.number
      returning step.*, asked.fresh
    ),
    started as (
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select v_now, 'workflows', 'step_started', workflow_id,
        jsonb_build_object('step', name, 'status', status, 'attempts', attempts)
      from claimed
      where fresh and not compensates and number >= 0
    )
    -- Rows as arrays: field names would be most of the result.
    select json_agg(json_build_array(
      workflow_id, number, definition_id, handler, compensates, lease_epoch, fresh,
      case when compensates then compensation_attempts else attempts end, input, input_notes,
      case when compensates then output end, case when compensates then output_notes end, outcome, compensation_outcome,
      extract(epoch from v_now - scheduled_at)::float8 * 1000
    ) order by rank, scheduled_at),
    -- Not fresh although a call was in flight: the call was lost.
    array_agg(workflow_id) filter (where in_flight and not fresh),
    array_agg(number) filter (where in_flight and not fresh)
    into v_items, v_lost, v_lost_numbers
    from claimed;
    if v_lost is not null then
      v_items := holdfast.weigh_lost_steps(v_items, v_lost, v_lost_numbers);
    end if;
  end if;
  if coalesce(cardinality(v_ids), 0) < most and most > any (v_free) then
    -- More paused steps are in front: the next claim continues there, at once.
    v_next := v_now;
  elsif coalesce(cardinality(v_ids), 0) < most then
    select min(it.due_at)
    into v_next
    from unnest(v_handlers) as wanted
    cross join lateral (
      select due_at
      from holdfast.workflow_step
      where handler = wanted and not ready and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1
    ) as it;
    v_next := least(v_next, (
      select due_at
      from holdfast.workflow_step
      where abort and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1
    ));
  end if;
  return query select coalesce(v_items, '[]'), extract(epoch from v_next - v_now)::float8 * 1000;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.clean_up_lost_claims(p_age interval, most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_gone int;
begin
  delete from holdfast.lost_claim
  where ctid = any (array(
    select ctid from holdfast.lost_claim where at < holdfast.now() - p_age order by at limit most for update skip locked
  ));
  get diagnostics v_gone = row_count;
  return v_gone;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.clean_up_workflows(statuses text[], before timestamp with time zone, most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids uuid[];
begin
  v_ids := array(
    select id
    from holdfast.workflow
    where ended_at < before
      and status = any (statuses)
      and not exists (select from holdfast.workflow_dead_letter where workflow_id = workflow.id)
      -- A call that has not reported its end yet.
      and not exists (select from holdfast.workflow_step where workflow_id = workflow.id and due_at is not null)
    order by ended_at
    limit most
    for update skip locked
  );
  delete from holdfast.workflow_step where workflow_id = any (v_ids);
  delete from holdfast.workflow_decision where workflow_id = any (v_ids);
  delete from holdfast.workflow where id = any (v_ids);
  return cardinality(v_ids);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.clear_junk(p_queue text, p_domain text, types text[], p_now timestamp with time zone, p_window integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids bigint[];
begin
  execute format(
    $query$
    select array_agg(junk.msg_id)
    from unnest($1) as lane (type),
    lateral (
      select near.msg_id
      from (
        select q.msg_id, q.message
        from pgmq.%I as q
        where q.message ->> 'command_type' = lane.type and q.vt <= $2
        order by q.vt
        limit $3
        for update skip locked
      ) as near
      where coalesce(length(near.message ->> 'command_id') < 32, true)
        or near.message ->> 'command_id' !~ '^[{]?[0-9a-fA-F-]+[}]?$'
        or near.message ->> 'domain' <> $4
    ) as junk
    $query$, 'q_' || p_queue
  ) into v_ids using types, p_now, p_window, p_domain;
  if v_ids is null then
    return 0;
  end if;
  perform pgmq.archive(p_queue, v_ids);
  return cardinality(v_ids);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.clear_typeless(p_queue text, p_now timestamp with time zone, p_most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids bigint[];
begin
  execute format(
    $query$
    select array_agg(msg_id) from (
      select msg_id from pgmq.%I
      where message ->> 'command_type' is null and vt <= $1
      order by vt
      limit $2
      for update skip locked
    ) as typeless
    $query$, 'q_' || p_queue
  ) into v_ids using p_now, p_most;
  if v_ids is null then
    return 0;
  end if;
  perform pgmq.archive(p_queue, v_ids);
  return cardinality(v_ids);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.close_batches(most integer)
 RETURNS TABLE(taken integer, closed json, next_due_ms double precision)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_tallies bigint[];
  v_batches uuid[];
  v_closed json;
  v_callback jsonb;
begin
  v_tallies := array(
    select tally_id from holdfast.batch_tally
    where due_at <= v_now
    order by due_at
    limit most
    for update skip locked
  );
  v_batches := array(
    select distinct batch_id from holdfast.batch_tally where tally_id = any (v_tallies) order by 1
  );
  -- In the order of ids, so that two workers that close batches cannot deadlock.
  perform from holdfast.batch where batch_id = any (v_batches) order by batch_id for no key update;
  with begun as (
    update holdfast.batch
    set status = 'IN_PROGRESS', started_at = v_now
    where batch_id = any (v_batches) and status = 'PENDING'
    returning batch_id
  )
  insert into holdfast.audit (at, model, event, subject_id)
  select v_now, 'commands', 'BATCH_STARTED', batch_id from begun;

  perform holdfast.fold_batch_tallies(v_batches, v_tallies, 5000);
  -- Tallies that remain are locked by another transaction, or were inserted since.
  with counted as (
    select
      batch.batch_id,
      batch.tallied_total + coalesce(sum(tally.added), 0) as total,
      batch.tallied_completed + coalesce(sum(tally.completed), 0) as completed,
      batch.tallied_failed + coalesce(sum(tally.failed), 0) as failed,
      batch.tallied_cancelled + coalesce(sum(tally.cancelled), 0) as cancelled
    from holdfast.batch
    left join holdfast.batch_tally as tally on tally.batch_id = batch.batch_id
    where batch.batch_id = any (v_batches)
    group by batch.batch_id
  ),
  done as (
    update holdfast.batch
    set status = case when counted.failed + counted.cancelled > 0 then 'COMPLETED_WITH_FAILURES' else 'COMPLETED' end,
        completed_at = v_now,
        total = counted.total,
        completed = counted.completed,
        failed = counted.failed,
        cancelled = counted.cancelled
    from counted
    where batch.batch_id = counted.batch_id
      and batch.sealed
      and batch.completed_at is null
      and not exists (select from holdfast.batch_open where batch_open.batch_id = batch.batch_id)
    returning batch.*
  ),
  audited as (
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'commands', 'BATCH_COMPLETED', batch_id,
      jsonb_build_object('total', total, 'completed', completed, 'failed', failed, 'cancelled', cancelled)
    from done
  )
  select
    json_agg(json_build_object('batchId', batch_id, 'domain', domain, 'status', status)),
    jsonb_agg(jsonb_build_object('queue', on_complete ->> 'queue', 'domain', on_complete ->> 'domain', 'commands',
      jsonb_build_array(on_complete || jsonb_build_object('data', jsonb_build_object(
        'batchId', batch_id, 'name', name, 'data', data, 'status', status,
        'total', total, 'completed', completed, 'failed', failed, 'cancelled', cancelled
      ), 'notes', (
        select jsonb_object_agg('/data' || pointer, kind) from jsonb_each(notes) as note (pointer, kind)
      )))
    )) filter (where on_complete is not null)
  into v_closed, v_callback
  from done;
  if v_callback is not null then
    -- The command's id is derived from the batch's id, so it is sent only once.
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'commands', 'REPLY_FAILED', batch.batch_id, jsonb_build_object('problem', refused.outcome)
    from holdfast.send_commands(v_callback) as refused
    join holdfast.batch on batch.batch_id = any (v_batches) and (batch.on_complete ->> 'command_id')::uuid = refused.id
    where refused.outcome <> 'duplicate';
  end if;
  -- A closed batch has its counts in its own row. A tally that another worker has locked is skipped: that worker waits for our lock on
  -- the batch, and deletes the tally itself.
  delete from holdfast.batch_tally
  where tally_id = any (array(
    select tally.tally_id
    from holdfast.batch_tally as tally
    join holdfast.batch on batch.batch_id = tally.batch_id
    where tally.batch_id = any (v_batches) and batch.completed_at is not null
    for update of tally skip locked
  ));
  return query select
    cardinality(v_tallies),
    coalesce(v_closed, '[]'::json),
    (select extract(epoch from min(due_at) - v_now)::float8 * 1000 from holdfast.batch_tally where due_at > v_now);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.command_ids_in(p_domain text, messages jsonb[])
 RETURNS uuid[]
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  return array(
    select case when coalesce(message ->> 'domain', p_domain) = p_domain then (message ->> 'command_id')::uuid end
    from unnest(messages) as message
  );
exception when invalid_text_representation then
  return array(
    select case when coalesce(message ->> 'domain', p_domain) = p_domain then holdfast.uuid_or_null(message ->> 'command_id') end
    from unnest(messages) as message
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.command_types(p_domain text)
 RETURNS text[]
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  with recursive types as (
    (
      select command.type
      from holdfast.command
      where command.domain collate "C" = p_domain
      order by command.domain collate "C", command.type collate "C"
      limit 1
    )
    union all
    select (
      select command.type
      from holdfast.command
      where command.domain collate "C" = p_domain and command.type collate "C" > types.type collate "C"
      order by command.domain collate "C", command.type collate "C"
      limit 1
    )
    from types
    where types.type is not null
  )
  select coalesce(array_agg(type), '{}') from types where type is not null
$function$
;

CREATE OR REPLACE FUNCTION holdfast.compact_dispatch_tallies()
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if (select count(*) from holdfast.dispatch_tally) < 100 + 2 * (
    select count(*) from (select distinct item_type, status, minute from holdfast.dispatch_tally) as sums
  ) then
    return;
  end if;
  with gone as (
    delete from holdfast.dispatch_tally
    where ctid = any (array(select ctid from holdfast.dispatch_tally limit 100000 for update skip locked))
    returning item_type, status, minute, count
  )
  insert into holdfast.dispatch_tally (item_type, status, minute, count)
  select item_type, status, minute, sum(count)
  from gone
  group by 1, 2, 3
  having sum(count) <> 0;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.complete_compensations(p_id uuid, p_step text, p_given jsonb, p_how text, p_actor text, p_reason text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
  v_steps text[];
  v_seq int;
begin
  select * into v_row from holdfast.process where id = p_id;
  select array_agg(holdfast.call_id(name, occurrence) order by seq)
  into v_steps
  from holdfast.failed_compensations(p_id, v_row.generation)
  where p_step is null or holdfast.call_id(name, occurrence) = p_step;
  if v_steps is null then
    return 'no failed compensation';
  end if;
  if p_given ?| array['result', 'state'] then
    return 'compensation has no result';
  end if;
  -- Only a step-based process compensates with commands.
  if exists (select from holdfast.process_detail where id = p_id and model = 'STEP_BASED') then
    begin
      perform holdfast.withdraw_remotes(p_id, v_row.type, 'process ' || p_id, 'its compensation was completed by hand');
    exception when sqlstate 'HF002' then
      return 'under way ' || sqlerrm;
    end;
  end if;
  v_seq := (select max(seq) from holdfast.process_history where process_id = p_id and generation = v_row.generation);
  insert into holdfast.process_history (
    process_id, generation, seq, epoch, at, kind, name, occurrence, status, attempt, detail
  )
  select p_id, v_row.generation, v_seq + row_number() over (order by seq), v_row.lease_epoch + 1, date_trunc('milliseconds', v_now),
    'COMPENSATION', name, occurrence,
    case when managed then 'WAITING_RETRY' else 'COMPLETED' end,
    attempt,
    detail - 'error' || jsonb_build_object('resolved', p_how)
      || case when managed then jsonb_build_object(
        'reply', jsonb_build_object('commandId', detail -> 'startedId', 'outcome', 'SUCCESS', 'result', null)
      ) else '{}' end
  from holdfast.failed_compensations(p_id, v_row.generation)
  where holdfast.call_id(name, occurrence) = any (v_steps);
  update holdfast.process
  set status = 'COMPENSATING', due_at = v_now, lease_epoch = lease_epoch + 1, rested_epoch = rested_epoch + 1, mismatch_since = null
  where id = p_id;
  perform holdfast.process_goes_on(p_id, v_now);
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, after, detail)
  values (v_now, 'processes', 'TSQ_RESOLVE', p_id, p_actor, p_reason, v_before,
    jsonb_build_object('status', 'COMPENSATING', 'compensations', v_steps, 'outcome', p_how), null);
  perform holdfast.wake('processes:' || v_row.type);
  return 'undone';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.complete_process(p_id uuid, p_epoch integer, p_responses integer, projection jsonb, p_actor text, p_reason text, p_overrides jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED') then
    return v_row.status;
  end if;
  if v_row.leased_at is not null and v_row.due_at > v_now then
    return 'EXECUTING';
  end if;
  if holdfast.process_is_unwinding(p_id, v_row.generation) then
    if v_row.status <> 'WAITING_FOR_TSQ' then
      return 'COMPENSATING';
    end if;
    return holdfast.complete_compensations(p_id, null, p_overrides, 'done', p_actor, p_reason);
  end if;
  if v_row.cancel is not null and v_row.status <> 'WAITING_FOR_TSQ' then
    return 'being cancelled';
  end if;
  if v_row.lease_epoch <> p_epoch or v_row.responses <> p_responses then
    return 'changed';
  end if;
  begin
    perform holdfast.withdraw_remotes(p_id, v_row.type, 'process ' || p_id, 'its process was completed by hand');
  exception when sqlstate 'HF002' then
    return 'under way ' || sqlerrm;
  end;
  update holdfast.process
  set status = 'COMPLETED', due_at = null, queued_at = null, leased_by = null, leased_at = null, cancel = null,
      lease_epoch = lease_epoch + 1, rested_epoch = lease_epoch + 1, last_write = null, mismatch_since = null
  where id = p_id;
  perform holdfast.process_goes_on(p_id, v_now);
  update holdfast.process_detail as detail
  set ended_at = v_now,
      projection = case when complete_process.projection ? 'state' then complete_process.projection -> 'state' else detail.projection end,
      projection_notes = case
        when complete_process.projection ? 'state' then nullif(complete_process.projection -> 'notes', 'null')
        else detail.projection_notes
      end,
      projection_responses = case when complete_process.projection ? 'state' then p_responses else detail.projection_responses end,
      result = nullif(complete_process.projection -> 'result', 'null'),
      result_notes = nullif(complete_process.projection -> 'resultNotes', 'null')
  where id = p_id;
  delete from holdfast.process_slot where process_id = p_id;
  perform holdfast.processes_ended(array[p_id]);
  perform holdfast.end_dispatched_processes(array[p_id]);
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, after)
  values (v_now, 'processes', 'TSQ_COMPLETE_OVERRIDE', p_id, p_actor, p_reason, v_before,
    jsonb_build_object('status', 'COMPLETED') || p_overrides);
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.completed_commands(p_id uuid, p_generation integer, p_before integer)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select json_agg(json_build_array(seq, name, occurrence) order by seq desc)
  from holdfast.process_history
  where process_id = p_id
    and generation = p_generation
    and seq < p_before
    and kind = 'COMMAND'
    and (status = 'COMPLETED' or status = 'FAILED' and detail ->> 'outcome' = 'unknown')
$function$
;

CREATE OR REPLACE FUNCTION holdfast.configure_dispatch(p_type text, changes jsonb, p_actor text, p_reason text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_known boolean;
begin
  perform set_config('hf_dispatch.actor', p_actor, true), set_config('hf_dispatch.reason', p_reason, true);
  v_known := holdfast.set_dispatch_config(p_type, changes);
  perform set_config('hf_dispatch.actor', '', true), set_config('hf_dispatch.reason', '', true);
  return v_known;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.configure_process(p_type text, changes jsonb, p_actor text, p_reason text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_before holdfast.process_setting;
  v_after holdfast.process_setting;
begin
  -- Claims of a limited definition take this lock, so none is in flight with another limit.
  perform pg_advisory_xact_lock(holdfast.slots_lock(p_type));
  insert into holdfast.process_setting (type, updated_at) values (p_type, v_now) on conflict (type) do nothing;
  select * into v_before from holdfast.process_setting where type = p_type for update;
  v_after := jsonb_populate_record(v_before, changes || jsonb_build_object('updated_at', v_now));
  update holdfast.process_setting
  set wait_timeout_ms = v_after.wait_timeout_ms, deadline_action = v_after.deadline_action,
      concurrency = v_after.concurrency, lease_ms = v_after.lease_ms, poll_ms = v_after.poll_ms, updated_at = v_now
  where type = p_type;
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
  values (v_now, 'processes', 'CONFIGURED', p_type, p_actor, p_reason,
    jsonb_strip_nulls(to_jsonb(v_before) - 'type' - 'updated_at'), jsonb_strip_nulls(to_jsonb(v_after) - 'type' - 'updated_at'));
  if v_before.concurrency is null and v_after.concurrency is not null then
    -- Processes that execute already count.
    insert into holdfast.process_slot (process_id, type)
    select id, p_type from holdfast.process
    where type = p_type and due_at is not null and leased_at is not null
    on conflict do nothing;
  elsif v_after.concurrency is null and v_before.concurrency is not null then
    perform holdfast.free_queued_processes(p_type, v_now);
  end if;
  perform holdfast.wake('processes:' || p_type);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.context_hash(context jsonb, notes jsonb)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT (jsonb_hash_extended(context, (0)::bigint) # jsonb_hash_extended(COALESCE(notes, 'null'::jsonb), (1)::bigint));
END
;

CREATE OR REPLACE FUNCTION holdfast.count_dispatched_ahead(p_type text, p_most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_cycle holdfast.dispatch_cycle;
  v_count int;
  v_oldest timestamptz;
begin
  select * into v_cycle from holdfast.dispatch_cycle where item_type = p_type;
  select count(*), min(ahead.created_at)
  into v_count, v_oldest
  from unnest(v_cycle.exec_types) as exec_type,
  lateral (
    (
      select process.created_at
      from holdfast.process
      where status = 'PENDING'
        and type = exec_type
        and process.created_at >= coalesce(v_cycle.ahead_since, '-infinity')
        and leased_at is null
        and lease_epoch = unbegun_epoch
        and dispatch_type = p_type
      order by process.created_at
      limit p_most
    )
    union all
    (
      select workflow.created_at
      from holdfast.workflow
      where status = 'PENDING'
        and name = exec_type
        and workflow.created_at >= coalesce(v_cycle.ahead_since, '-infinity')
        and dispatch_type = p_type
      order by workflow.created_at
      limit p_most
    )
  ) as ahead;
  v_oldest := coalesce(v_oldest, v_now);
  if v_cycle.ahead_since is distinct from v_oldest then
    update holdfast.dispatch_cycle set ahead_since = v_oldest where item_type = p_type;
  end if;
  return v_count;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.count_dispatched_beginning(p_type text)
 RETURNS integer
 LANGUAGE plpgsql
 STABLE
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_types text[] := (select exec_types from holdfast.dispatch_cycle where item_type = p_type);
begin
  return (
    select count(*)
    from holdfast.process
    where type = any (v_types)
      and due_at is not null
      and leased_at > v_now - interval '2 seconds'
      and unbegun_epoch = lease_epoch - 1
      and dispatch_type = p_type
  ) + (
    select count(*)
    from holdfast.workflow
    join holdfast.workflow_step as root on root.workflow_id = workflow.id and root.number = -1
    where workflow.status = 'PENDING' and workflow.name = any (v_types) and workflow.dispatch_type = p_type
      and root.leased_at > v_now - interval '2 seconds'
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.count_due_this_minute(p_type text, p_count bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_minute timestamptz := date_trunc('minute', v_now);
  v_most int := 20000;
  v_count bigint;
begin
  if p_count = 0 then
    return 0;
  end if;
  select count(*) into v_count
  from (
    select from holdfast.dispatch_item
    where item_type = p_type and due_at > v_now and due_at < v_minute + interval '1 minute'
    order by due_at
    limit v_most
  ) as later;
  if v_count < v_most then
    return greatest(0, p_count - v_count);
  end if;
  select count(*) into v_count
  from (
    select from holdfast.dispatch_item
    where item_type = p_type and due_at >= v_minute and due_at <= v_now
    order by due_at
    limit v_most
  ) as due;
  return case when v_count < v_most then v_count else (p_count * extract(second from v_now) / 60)::bigint end;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.count_processes(filter jsonb)
 RETURNS bigint
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select count(*) from holdfast.fitting_processes(filter, null)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.count_releasable_items(p_type text, p_most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_config holdfast.dispatch_config;
  v_room bigint := p_most;
begin
  select * into v_config from holdfast.dispatch_config where item_type = p_type;
  if v_config.engine <> 'REMOTE' and v_config.max_batches_ahead is not null then
    v_room := v_config.max_batches_ahead::bigint * v_config.batch_size;
    v_room := greatest(0, v_room - holdfast.count_dispatched_ahead(p_type, least(v_room, 2147483647)::int));
  end if;
  return (
    select count(*)
    from (
      select from holdfast.dispatch_item
      where item_type = p_type and due_at <= v_now
      order by due_at, seq
      limit least(p_most, v_room)
    ) as due
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.count_slots(p_type text, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_taken int := (select count(*) from holdfast.process_slot where type = p_type);
begin
  if v_taken >= p_limit then
    delete from holdfast.process_slot
    where process_id = any (array(
      select slot.process_id
      from holdfast.process_slot as slot
      join holdfast.process on process.id = slot.process_id
      where slot.type = p_type and process.leased_at is null
      for update of slot skip locked
    ));
    v_taken := (select count(*) from holdfast.process_slot where type = p_type);
  end if;
  return v_taken;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.deadline_option(p_function text, p_options jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if p_options ->> 'deadline' ~ '^\d{4}-' then
    return jsonb_build_object(
      'deadline_ms', extract(epoch from holdfast.option_of(p_function, p_options, 'deadline', 'time')::timestamptz) * 1000
    );
  end if;
  return jsonb_build_object('deadline_in_ms', holdfast.option_of(p_function, p_options, 'deadline', 'duration')::float8);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.decide(id uuid, step text, decision text, by jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.dispatch_fingerprint(code text, message text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT "left"(md5(((code || ' '::text) || regexp_replace(regexp_replace(message, '''[^'']*''|"[^"]*"|`[^`]*`'::text, '?'::text, 'g'::text), '[0-9a-fA-F-]*[0-9][0-9a-zA-Z-]*'::text, '#'::text, 'g'::text))), 16) AS "left";
END
;

CREATE OR REPLACE FUNCTION holdfast.dispatch_gate(p_type text)
 RETURNS bigint
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select hashtextextended('holdfast dispatch gate ' || p_type, (select tableoid from holdfast.clock)::bigint)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.dispatch_tolerance(config holdfast.dispatch_config)
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select case
    when config.rate_limit_key is not null then interval '250 ms'
    when config.dispatch_interval_secs > 0 then interval '1 second'
  end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.dispatched_starts(p_type text, names text[])
 RETURNS uuid[]
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select array(
    select workflow.id
    from holdfast.workflow
    join holdfast.workflow_step as root on root.workflow_id = workflow.id and root.number = -1
    where workflow.status = 'PENDING' and workflow.name = any (names) and workflow.dispatch_type = p_type
    order by workflow.id
    for no key update of root
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.due_dispatch_checks(p_type text)
 RETURNS TABLE("itemId" text, "executionId" text, status text)
 LANGUAGE sql
 STABLE
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select item_id, execution_id, item.status
  from holdfast.dispatch_item as item
  where item_type = p_type and check_at <= holdfast.now()
  order by check_at
  limit (select 4 * max_stale_recovery_per_cycle from holdfast.dispatch_config where dispatch_config.item_type = p_type)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.duration_option(p_function text, p_name text, p_value text, p_type text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.effective_burst(tickets_per_second double precision, burst integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT COALESCE(burst, (GREATEST((1)::double precision, floor(tickets_per_second)))::integer) AS "coalesce";
END
;

CREATE OR REPLACE FUNCTION holdfast.end_dispatched(item_types text[], item_ids text[], execution_ids text[], outcomes text[], codes text[], messages text[])
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
begin
  with ended as (
    update holdfast.dispatch_item as item
    set status = asked.outcome,
        completed_at = v_now,
        check_at = null,
        updated_at = v_now,
        last_error = case when asked.outcome = 'FAILED' then asked.code || ': ' || asked.message end
    from unnest(item_types, item_ids, execution_ids, outcomes, codes, messages)
      as asked (item_type, item_id, execution_id, outcome, code, message)
    where item.item_type = asked.item_type
      and item.item_id = asked.item_id
      and item.status = 'DISPATCHED'
      and item.execution_id = asked.execution_id
      and asked.outcome in ('COMPLETED', 'FAILED')
      -- Always true, and estimated as one row: the plan begins with the requested items, not with the table.
      and asked.item_id = asked.item_id || ''
    returning item.item_type, item.item_id, item.status, item.batch_id, item.last_error
  ),
  told as (
    -- Only failures are audited. Completions are numerous, and each is on record as an execution.
    insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
    select v_now, 'dispatch', 'FAILED', item_type || '/' || item_id, '{"status": "DISPATCHED"}', '{"status": "FAILED"}',
      jsonb_build_object('batchId', batch_id, 'error', last_error)
    from ended
    where status = 'FAILED'
  )
  delete from holdfast.dispatch_context as context
  using ended
  where context.item_type = ended.item_type and context.item_id = ended.item_id;
  perform holdfast.wake_results('dispatch');
  if 'RETRY' = any (outcomes) then
    return holdfast.fail_dispatch_items((
      select jsonb_agg(jsonb_build_object(
        'type', asked.item_type, 'id', asked.item_id, 'execution', asked.execution_id, 'from', 'DISPATCHED',
        'event', 'EXECUTION_FAILED', 'code', asked.code, 'message', asked.message
      ) order by asked.item_type, asked.item_id)
      from unnest(item_types, item_ids, execution_ids, outcomes, codes, messages)
        as asked (item_type, item_id, execution_id, outcome, code, message)
      where asked.outcome = 'RETRY'
    ));
  end if;
  return 0;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.end_dispatched_processes(ids uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_types text[];
  v_items text[];
  v_executions text[];
  v_outcomes text[];
  v_codes text[];
  v_messages text[];
begin
  select array_agg(process.dispatch_type), array_agg(detail.dispatch_item), array_agg(detail.key),
    array_agg(case
      when process.status = 'COMPLETED' then 'COMPLETED'
      when process.status = 'FAILED' and detail.error_code is distinct from 'DEADLINE_EXCEEDED' then 'RETRY'
      else 'FAILED'
    end),
    array_agg(coalesce(detail.error_code, process.status)),
    array_agg(coalesce(detail.error_message, 'the process ended ' || process.status))
  into v_types, v_items, v_executions, v_outcomes, v_codes, v_messages
  from holdfast.process_detail as detail
  join holdfast.process on process.id = detail.id
  where detail.id = any (ids)
    and detail.dispatch_item is not null
    and process.status in ('COMPLETED', 'COMPENSATED', 'CANCELLED', 'FAILED');
  if v_types is not null then
    perform holdfast.end_dispatched(v_types, v_items, v_executions, v_outcomes, v_codes, v_messages);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.end_dispatched_workflows(ids uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform holdfast.end_dispatched(
    array_agg(dispatch_type), array_agg(dispatch_item), array_agg(key),
    array_agg(case when status = 'COMPLETED' then 'COMPLETED' else 'FAILED' end),
    array_agg(coalesce(failure ->> 'code', status)),
    array_agg(coalesce(failure ->> 'message', 'the workflow ended ' || status))
  )
  from holdfast.workflow
  where id = any (ids) and dispatch_item is not null and status in ('COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED')
  having count(*) > 0;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.ensure_audit_partitions(weeks_ahead integer)
 RETURNS SETOF text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET "TimeZone" TO 'UTC'
 SET lock_timeout TO '1s'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_schema text := (select relnamespace::regnamespace from pg_class where oid = (select tableoid from holdfast.clock));
  v_week timestamptz;
  v_name text;
begin
  -- An advisory lock of the transaction, so that two workers do not create the same partition; nothing else takes it.
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
    perform holdfast.protect_audit_partition(format('%s.%I', v_schema, v_name)::regclass);
    -- The check constraint saved a scan of all rows during the attach. The bounds of the partition say the same from now on.
    execute format('alter table %s.%I drop constraint %I', v_schema, v_name, v_name || '_week');
    return next v_name;
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.execution_id(item_type text, item_id text, failed_executions integer)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT ((((('exec:'::text || item_type) || ':'::text) || item_id) || ':'::text) || failed_executions);
END
;

CREATE OR REPLACE FUNCTION holdfast.expire_commands(p_queue text, p_domain text, ids bigint[], reads integer[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  execute format(
    $query$
    with free as (
      select q.msg_id
      from (select * from unnest($1, $2) as asked (msg_id, read_ct) order by msg_id) as asked,
      lateral (
        select msg_id from pgmq.%1$I as q
        where q.msg_id = asked.msg_id
          and q.read_ct = asked.read_ct
          and not %2$sis_between_attempts($4, q.message ->> 'command_id', q.read_ct)
        for update skip locked
      ) q
    )
    update pgmq.%1$I set vt = $3
    where msg_id = any (array(select msg_id from free))
    $query$, 'q_' || p_queue, 'holdfast.'
  ) using ids, reads, holdfast.now(), p_domain;
  perform holdfast.wake('commands:' || p_domain);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.expire_processes(ids uuid[], epochs integer[], OUT ended integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_lanes text[];
        v_lane text;
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, epochs) as asked (id, epoch) order by id) as asked
          cross join lateral (
            select
            from holdfast.process as it
            where it.id = asked.id and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        beside as (select),
        changed as (
          update holdfast.process as it
          set due_at = holdfast.now()
          from free
          where it.id = free.id and free.epoch = free.epoch + 0
          returning it.type as lane
        )
        select array_agg(distinct lane), count(*) into v_lanes, ended from changed;
        foreach v_lane in array coalesce(v_lanes, '{}') loop
          perform holdfast.wake('processes:' || v_lane);
        end loop;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.expire_workflow_steps(ids uuid[], numbers smallint[], epochs integer[], OUT ended integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_lanes text[];
        v_lane text;
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, numbers, epochs) as asked (workflow_id, number, epoch) order by workflow_id, number) as asked
          cross join lateral (
            select
            from holdfast.workflow_step as it
            where it.workflow_id = asked.workflow_id and it.number = asked.number and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        beside as (select),
        changed as (
          update holdfast.workflow_step as it
          set due_at = holdfast.now()
          from free
          where it.workflow_id = free.workflow_id and it.number = free.number and free.epoch = free.epoch + 0
          returning it.handler as lane
        )
        select array_agg(distinct lane), count(*) into v_lanes, ended from changed;
        foreach v_lane in array coalesce(v_lanes, '{}') loop
          perform holdfast.wake('workflows:' || v_lane);
        end loop;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.extend_chores(ids text[], epochs integer[], lease_ms integer, OUT extended json, OUT lost json)
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, epochs) as asked (name, epoch) order by name) as asked
          cross join lateral (
            select
            from holdfast.chore as it
            where it.name = asked.name and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        moved as (
          update holdfast.chore as it
          set due_at = holdfast.now() + lease_ms * interval '1 ms'
          from free
          where it.name = free.name and free.epoch = free.epoch + 0
          returning it.name as id
        )
        select
          (select coalesce(json_agg(moved.id), '[]') from moved),
          (
            select coalesce(json_agg(asked.name), '[]')
            from unnest(ids, epochs) as asked (name, epoch)
            left join holdfast.chore as it on it.name = asked.name
            where it.lease_epoch is null or it.lease_epoch <> asked.epoch or not (it.leased_at is not null)
          )
        into extended, lost;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.extend_commands(p_queue text, ids bigint[], reads integer[], lease_ms integer)
 RETURNS TABLE(extended json, lost json)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_free bigint[];
begin
  execute format(
    $query$
    with free as (
      select q.msg_id
      from (select * from unnest($1, $2) as asked (msg_id, read_ct) order by msg_id) as asked,
      lateral (
        select msg_id from pgmq.%1$I as q
        where q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
        for update skip locked
      ) q
    )
    update pgmq.%1$I set vt = greatest(vt, $3)
    where msg_id = any (array(select msg_id from free))
    $query$, 'q_' || p_queue
  ) using ids, reads, holdfast.now() + lease_ms * interval '1 ms';
  return query execute format(
    $query$
    select
      coalesce(json_agg(asked.msg_id::text) filter (where q.vt >= $3), '[]'),
      coalesce(json_agg(asked.msg_id::text) filter (where q.msg_id is null), '[]')
    from unnest($1, $2) as asked (msg_id, read_ct)
    left join pgmq.%I as q on q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
    $query$, 'q_' || p_queue
  ) using ids, reads, holdfast.now() + lease_ms * interval '1 ms';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.extend_dispatch_cycles(ids text[], epochs integer[], lease_ms integer, OUT extended json, OUT lost json)
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, epochs) as asked (item_type, epoch) order by item_type) as asked
          cross join lateral (
            select
            from holdfast.dispatch_cycle as it
            where it.item_type = asked.item_type and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        moved as (
          update holdfast.dispatch_cycle as it
          set due_at = holdfast.now() + lease_ms * interval '1 ms'
          from free
          where it.item_type = free.item_type and free.epoch = free.epoch + 0
          returning it.item_type as id
        )
        select
          (select coalesce(json_agg(moved.id), '[]') from moved),
          (
            select coalesce(json_agg(asked.item_type), '[]')
            from unnest(ids, epochs) as asked (item_type, epoch)
            left join holdfast.dispatch_cycle as it on it.item_type = asked.item_type
            where it.lease_epoch is null or it.lease_epoch <> asked.epoch or not (it.leased_at is not null)
          )
        into extended, lost;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.extend_inbox(ids uuid[], epochs integer[], lease_ms integer, OUT extended json, OUT lost json)
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, epochs) as asked (id, epoch) order by id) as asked
          cross join lateral (
            select
            from holdfast.process_inbox as it
            where it.id = asked.id and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        moved as (
          update holdfast.process_inbox as it
          set due_at = holdfast.now() + lease_ms * interval '1 ms'
          from free
          where it.id = free.id and free.epoch = free.epoch + 0
          returning it.id as id
        )
        select
          (select coalesce(json_agg(moved.id), '[]') from moved),
          (
            select coalesce(json_agg(asked.id), '[]')
            from unnest(ids, epochs) as asked (id, epoch)
            left join holdfast.process_inbox as it on it.id = asked.id
            where it.lease_epoch is null or it.lease_epoch <> asked.epoch or not (it.leased_at is not null)
          )
        into extended, lost;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.extend_processes(ids uuid[], epochs integer[], lease_ms integer, OUT extended json, OUT lost json)
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, epochs) as asked (id, epoch) order by id) as asked
          cross join lateral (
            select
            from holdfast.process as it
            where it.id = asked.id and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        moved as (
          update holdfast.process as it
          set due_at = holdfast.now() + lease_ms * interval '1 ms'
          from free
          where it.id = free.id and free.epoch = free.epoch + 0
          returning it.id as id
        )
        select
          (select coalesce(json_agg(moved.id), '[]') from moved),
          (
            select coalesce(json_agg(asked.id), '[]')
            from unnest(ids, epochs) as asked (id, epoch)
            left join holdfast.process as it on it.id = asked.id
            where it.lease_epoch is null or it.lease_epoch <> asked.epoch or not (it.leased_at is not null)
          )
        into extended, lost;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.extend_workflow_steps(ids uuid[], numbers smallint[], epochs integer[], worker text, own_ms integer, lease_ms integer, OUT extended json, OUT lost json)
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, numbers, epochs) as asked (workflow_id, number, epoch) order by workflow_id, number) as asked
          cross join lateral (
            select
            from holdfast.workflow_step as it
            where it.workflow_id = asked.workflow_id and it.number = asked.number and it.lease_epoch = asked.epoch and (it.leased_at is not null or it.ready and it.in_flight)
            for no key update skip locked
          ) as locked
        ),
        moved as (
          update holdfast.workflow_step as it
          set due_at = holdfast.now() + greatest(
            coalesce((select definition.lease_ms from holdfast.workflow_definition as definition where definition.id = it.definition_id), own_ms),
            extend_workflow_steps.lease_ms
          ) * interval '1 ms', ready = false, leased_by = coalesce(it.leased_by, worker), leased_at = coalesce(it.leased_at, holdfast.now())
          from free
          where it.workflow_id = free.workflow_id and it.number = free.number and free.epoch = free.epoch + 0
          returning it.workflow_id || '/' || it.number as id
        )
        select
          (select coalesce(json_agg(moved.id), '[]') from moved),
          (
            select coalesce(json_agg(asked.workflow_id || '/' || asked.number), '[]')
            from unnest(ids, numbers, epochs) as asked (workflow_id, number, epoch)
            left join holdfast.workflow_step as it on it.workflow_id = asked.workflow_id and it.number = asked.number
            where it.lease_epoch is null or it.lease_epoch <> asked.epoch or not (it.leased_at is not null or it.ready and it.in_flight)
          )
        into extended, lost;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.fail_dispatch_items(failures jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_dead int;
begin
  with failed as (
    update holdfast.dispatch_item as item
    set retry_count = item.retry_count + 1,
        failed_executions = item.failed_executions + case when asked.execution is not null then 1 else 0 end,
        status = case when item.retry_count + 1 < config.max_dispatch_retries then 'READY' else 'DEAD_LETTER' end,
        due_at = case when item.retry_count + 1 < config.max_dispatch_retries then greatest(
          item.exec_time,
          v_now + least(300, greatest(config.dispatch_interval_secs, 1) * 2 ^ least(item.retry_count, 10)) * interval '1 second'
        ) end,
        check_at = null,
        updated_at = v_now,
        last_error = asked.code || ': ' || asked.message
    from jsonb_to_recordset(failures) as asked (
      type text, id text, execution text, "from" text, event text, code text, message text
    )
    join holdfast.dispatch_config as config on config.item_type = asked.type collate "C"
    where item.item_type = asked.type
      and item.item_id = asked.id
      and item.status = asked.from
      and (asked.execution is null or item.execution_id = asked.execution)
      and asked.id = asked.id || ''
    returning item.item_type, item.item_id, item.status, item.batch_id, item.retry_count, item.execution_id, asked.from,
      asked.event, asked.code, asked.message
  ),
  dead as (
    insert into holdfast.dispatch_dead_letter (item_type, item_id, since, error_code, error_message, fingerprint)
    select item_type, item_id, v_now, code, message, holdfast.dispatch_fingerprint(code, message)
    from failed
    where status = 'DEAD_LETTER'
    on conflict (item_type, item_id) do update
    set since = excluded.since, error_code = excluded.error_code, error_message = excluded.error_message,
        fingerprint = excluded.fingerprint, counted = false
    returning 1
  ),
  told as (
    insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
    select v_now, 'dispatch', event, item_type || '/' || item_id, jsonb_build_object('status', failed.from),
      jsonb_build_object('status', status), jsonb_build_object(
        'batchId', batch_id, 'executionId', execution_id, 'retryCount', retry_count, 'error', code || ': ' || message
      )
    from failed
  )
  select count(*) into v_dead from dead;
  if v_dead > 0 then
    perform holdfast.wake_results('dispatch');
  end if;
  return v_dead;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.fail_first_due(p_type text, p_epoch integer, from_due timestamp with time zone, from_seq bigint, p_code text, p_message text)
 RETURNS text
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_id text;
begin
  if not holdfast.hold_dispatch_cycle(p_type, p_epoch) then
    return null;
  end if;
  select item_id
  into v_id
  from holdfast.dispatch_item
  where item_type = p_type
    and (due_at, seq) > (coalesce(from_due, '-infinity'), coalesce(from_seq, 0))
    and due_at <= v_now + (
      select pre_start_buffer_mins * interval '1 minute' from holdfast.dispatch_config where dispatch_config.item_type = p_type
    )
  order by due_at, seq
  limit 1
  for no key update skip locked;
  perform holdfast.fail_dispatch_items(jsonb_build_array(jsonb_build_object(
    'type', p_type, 'id', v_id, 'from', 'READY', 'event', 'START_FAILED', 'code', p_code, 'message', p_message
  )));
  return v_id;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.failed_compensations(p_id uuid, p_generation integer)
 RETURNS TABLE(seq integer, name text, occurrence integer, attempt integer, detail jsonb, managed boolean)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.failed_step(p_id uuid, p_generation integer)
 RETURNS TABLE(name text, occurrence integer)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.find_commands(filter jsonb)
 RETURNS SETOF jsonb
 LANGUAGE plpgsql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_sort TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_few constant int := 10000;
  v_counts boolean := coalesce((filter ->> 'count')::boolean, false);
  v_narrow boolean := filter ?| array['command_id', 'key', 'correlation_id', 'batch_id'];
  v_live boolean := coalesce(filter ->> 'status' in ('PENDING', 'IN_PROGRESS'), false);
  v_order text := case when v_counts then '' else 'order by created_at desc, command_id desc limit ($1 ->> ''limit'')::int' end;
  v_schema text := holdfast.own_schema();
  v_after timestamptz;
  v_branches text[] := '{}';
  v_domain text;
  v_queue text;
  v_messages text;
  v_few_live boolean;
  v_found text;
  v_from text;
  v_source text;
  v_where text;
begin
  if filter ->> 'after_id' is not null then
    -- The cursor has milliseconds, the row microseconds. If the row is gone, the page begins after its whole millisecond.
    v_after := coalesce(
      (
        select created_at from holdfast.command
        where command_id = (filter ->> 'after_id')::uuid and domain = filter ->> 'after_domain'
      ),
      (filter ->> 'after')::timestamptz + interval '1 ms'
    );
  end if;
  for v_domain, v_queue in
    select command_queue.domain, queue
    from holdfast.command_queue
    where filter ->> 'domain' is null or command_queue.domain = filter ->> 'domain'
    order by 1
  loop
    -- Commands whose queue was dropped still exist, without messages.
    v_messages := case
      when holdfast.queue_exists(v_queue) then format('pgmq.%I', 'q_' || v_queue)
      else '(select null::bigint as msg_id, null::int as read_ct, null::timestamptz as vt, null::jsonb as message)'
    end;
    v_few_live := false;
    if v_live and not v_narrow and holdfast.queue_exists(v_queue) then
      execute format('select count(*) <= $1 from (select from %s as message limit $1 + 1) as waiting', v_messages)
      into v_few_live using v_few;
    end if;
    v_where := format(
      $query$
      command.domain = %1$L
        and ($1 ->> 'command_id' is null or command.command_id = ($1 ->> 'command_id')::uuid)
        and ($1 ->> 'type' is null or command.type = $1 ->> 'type')
        and ($1 ->> 'key' is null or command.key = $1 ->> 'key')
        and ($1 ->> 'correlation_id' is null or command.correlation_id = ($1 ->> 'correlation_id')::uuid)
        and ($1 ->> 'batch_id' is null or command.batch_id = ($1 ->> 'batch_id')::uuid)
        and ($1 ->> 'since' is null or command.created_at >= ($1 ->> 'since')::timestamptz)
        and ($1 ->> 'until' is null or command.created_at < ($1 ->> 'until')::timestamptz)
        and ($3 is null or (command.created_at, command.command_id, %1$L::text)
          < ($3, ($1 ->> 'after_id')::uuid, $1 ->> 'after_domain'))
        and ($1 ->> 'status' is null or $1 ->> 'status' = shown.status)
      $query$, v_domain
    );
    -- Ids of commands that wait or need an operator, where this is more selective than an index of the commands.
    v_found := case
      when v_few_live then format(
        'select distinct %s.uuid_or_null(waiting.message ->> ''command_id'') as id from %s as waiting', v_schema, v_messages
      )
      when filter ->> 'status' = 'IN_TROUBLESHOOTING_QUEUE' and not v_narrow then format(
        'select trouble.command_id as id from %s.command_trouble as trouble where trouble.domain = %L', v_schema, v_domain
      )
    end;
    v_from := case
      when v_found is null then v_schema || '.command'
      else format(
        '(%s) as found cross join lateral (select * from %s.command where command_id = found.id and domain || '''' = %L offset 0) as command',
        v_found, v_schema, v_domain
      )
    end;
    v_source := format(
      $query$
      select command.*, message.read_ct, message.vt, shown.status as shown_status
      from %1$s
      left join %2$s as message on message.msg_id = command.msg_id
      cross join lateral (
        select case
          when command.status = 'PENDING' and message.read_ct > command.attempts and message.vt > $2 then 'IN_PROGRESS'
          else command.status
        end as status
      ) as shown
      where %3$s
      $query$, v_from, v_messages, v_where
    );
    v_branches := v_branches || case
      when v_narrow or v_found is not null then format('(%s %s)', v_source, v_order)
      else format(
        $query$(
          select newest.*
          from unnest(%1$L::text[]) as lane (type),
          lateral (
            %2$s and command.domain collate "C" = %3$L and command.type collate "C" = lane.type collate "C" %4$s
          ) as newest
          %4$s
        )$query$,
        case when filter ->> 'type' is null then holdfast.command_types(v_domain) else array[filter ->> 'type'] end,
        v_source, v_domain, v_order
      )
    end;
  end loop;
  if cardinality(v_branches) = 0 then
    if v_counts then
      return next to_jsonb(0);
    end if;
    return;
  end if;
  if v_counts then
    return query execute format('select to_jsonb(count(*)) from (%s) as found', array_to_string(v_branches, ' union all '))
    using filter, holdfast.now(), v_after;
    return;
  end if;
  return query execute format(
    $query$
    select to_jsonb(found) - 'last_write' || jsonb_build_object(
      'status', found.shown_status,
      'paused', found.status = 'PENDING' and %s.is_paused(array[
        'domain:' || found.domain, 'definition:' || found.domain || '/' || found.type, 'handler:' || found.type
      ])
    )
    from (%s) as found
    order by found.created_at desc, found.command_id desc, found.domain desc
    limit ($1 ->> 'limit')::int
    $query$, v_schema, array_to_string(v_branches, ' union all ')
  ) using filter, holdfast.now(), v_after;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.find_processes(filter jsonb)
 RETURNS SETOF jsonb
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_most int := (filter ->> 'limit')::int;
begin
  return query
  -- Without the states, which may be large: they are read only for the rows that are returned.
  with picked as (
    select fitting.id, fitting.created_at, fitting.status
    from holdfast.fitting_processes(filter, v_most) as fitting
    order by fitting.created_at desc, fitting.id desc
    limit v_most
  )
  select jsonb_build_object(
    'id', detail.id, 'type', detail.type, 'version', process.version, 'model', detail.model, 'key', detail.key,
    'status', picked.status,
    'parent_id', detail.parent_id, 'batch_id', detail.batch_id, 'attributes', detail.attributes,
    'created_at', detail.created_at, 'updated_at', detail.updated_at, 'ended_at', detail.ended_at,
    'waiting_for', detail.waiting_for, 'wait_timeout_at', detail.wait_timeout_at, 'next_retry_at', detail.next_retry_at,
    'deadline_at', process.deadline_at, 'due_at', process.due_at, 'queued_at', process.queued_at,
    'leased_by', process.leased_by, 'leased_at', process.leased_at, 'cancel', process.cancel,
    'error_kind', detail.error_kind, 'error_code', detail.error_code, 'error_message', detail.error_message,
    'state', case when detail.projection is null then detail.state else detail.projection end,
    'state_notes', case when detail.projection is null then detail.state_notes else detail.projection_notes end,
    'result', detail.result, 'result_notes', detail.result_notes,
    'paused', holdfast.is_paused(array['domain:' || split_part(detail.type, '/', 1), 'definition:' || detail.type])
  )
  from picked
  join holdfast.process_detail as detail on detail.id = picked.id
  join holdfast.process on process.id = picked.id
  order by picked.created_at desc, picked.id desc;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.finish_answers(v_table text, p_domain text, writes jsonb, mine bigint[])
 RETURNS integer[]
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_there bigint[];
begin
  execute format(
    $query$
    select coalesce(array_agg(q.msg_id), '{}')
    from jsonb_array_elements($1) as it
    join pgmq.%I as q on q.msg_id = (it ->> 'msg_id')::bigint and q.read_ct = (it ->> 'read_ct')::int
    $query$, v_table
  ) into v_there using writes;
  return array(
    select case
      when (it ->> 'msg_id')::bigint = any (mine) then 0
      when command.last_write = (it ->> 'token')::uuid then 0
      when (it ->> 'msg_id')::bigint = any (v_there) then 2
      else 1
    end
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
    left join holdfast.command on command.command_id = (it ->> 'command_id')::uuid and command.domain || '' = p_domain
    order by place
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.finish_commands(p_queue text, p_domain text, writes jsonb)
 RETURNS integer[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  -- Two domains may use the same id, so each audit row names its domain.
  v_first_attempt jsonb := jsonb_build_object('attempt', 1, 'domain', p_domain);
  v_table text := 'q_' || p_queue;
  v_writes jsonb := writes;
  v_ids bigint[];
  v_reads int[];
  v_done boolean[];
  v_mine bigint[];
  v_troubled bigint[];
  v_retried bigint[];
  v_retry_at timestamptz[];
  v_replies jsonb;
  v_applied int;
  v_batches boolean;
begin
  select
    array_agg((it ->> 'msg_id')::bigint),
    array_agg((it ->> 'read_ct')::int),
    array_agg(it ->> 'outcome' in ('COMPLETED', 'FAILED'))
  into v_ids, v_reads, v_done
  from jsonb_array_elements(writes) as it;
  execute format('select %s%I($1, $2, $3)', 'holdfast.', 'end_' || p_queue) into v_mine using v_ids, v_reads, v_done;
  if cardinality(v_mine) < jsonb_array_length(writes) then
    select coalesce(jsonb_agg(it), '[]') into v_writes
    from jsonb_array_elements(writes) as it
    where (it ->> 'msg_id')::bigint = any (v_mine);
  end if;

  if jsonb_array_length(v_writes) > 0 then
    if false = any (v_done) then
      select
        array_agg((it ->> 'msg_id')::bigint) filter (where it ->> 'outcome' = 'TSQ'),
        array_agg((it ->> 'msg_id')::bigint) filter (where it ->> 'outcome' = 'RETRY'),
        array_agg(v_now + (it ->> 'delay_ms')::float8 * interval '1 ms') filter (where it ->> 'outcome' = 'RETRY')
      into v_troubled, v_retried, v_retry_at
      from jsonb_array_elements(v_writes) as it;
    end if;
    if v_troubled is not null then
      perform pgmq.archive(p_queue, v_troubled);
    end if;
    if v_retried is not null then
      execute format(
        'update pgmq.%I as q set vt = due.at from unnest($1, $2) as due (msg_id, at) where q.msg_id = due.msg_id', v_table
      ) using v_retried, v_retry_at;
    end if;

    with written as materialized (
      select *
      from jsonb_to_recordset(v_writes) as w (
        msg_id bigint, read_ct int, command_id uuid, outcome text, token uuid, result jsonb, result_notes jsonb,
        delay_ms float8, error_kind text, error_code text, error_message text, error_stack text, fingerprint text, inquiry text,
        effect text
      )
      -- Always true, and estimated as one row. So the plan begins here and looks commands up by id, also if it was made while the table
      -- was small and had no statistics.
      where read_ct = read_ct + 0
    ),
    changed as (
      update holdfast.command
      set status = case written.outcome
            when 'RETRY' then 'PENDING'
            when 'TSQ' then 'IN_TROUBLESHOOTING_QUEUE'
            else written.outcome
          end,
          attempts = written.read_ct,
          msg_id = case when written.outcome = 'RETRY' then command.msg_id end,
          updated_at = v_now,
          last_write = written.token,
          result = written.result,
          result_notes = nullif(written.result_notes, 'null'),
          error_kind = written.error_kind,
          error_code = written.error_code,
          error_message = written.error_message,
          inquiry = written.inquiry,
          -- An unknown outcome stays unknown until it is resolved (K-19). A receive that left no record may have called the handler.
          effect = case
            when written.outcome = 'COMPLETED' or written.effect = 'none' then null
            when written.effect = 'unknown' or written.read_ct > command.attempts + 1 then 'unknown'
            else command.effect
          end
      from written
      where command.command_id = written.command_id
        and command.domain || '' = p_domain
        and command.status = 'PENDING'
      returning
        written.*, command.type, command.correlation_id, command.reply_to, command.batch_id, command.max_attempts,
        command.effect as known_effect, written.read_ct - command.uncounted as attempt
    ),
    audited as (
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select
        v_now,
        'commands',
        case outcome when 'RETRY' then 'RETRY_SCHEDULED' when 'TSQ' then 'MOVED_TO_TSQ' else outcome end,
        command_id,
        case
          when outcome = 'COMPLETED' and read_ct = 1 then v_first_attempt
          when outcome = 'COMPLETED' then jsonb_build_object('attempt', attempt, 'domain', p_domain)
          else jsonb_strip_nulls(jsonb_build_object(
            'attempt', attempt, 'domain', p_domain, 'error_kind', error_kind, 'error_code', error_code, 'error_message', error_message,
            'error_stack', error_stack, 'delay_ms', delay_ms
          ))
        end
      from changed
    )
    select
      count(*),
      bool_or(batch_id is not null and outcome <> 'RETRY'),
      jsonb_agg(jsonb_build_object('domain', p_domain, 'queue', reply_to, 'command_id', command_id, 'message', jsonb_strip_nulls(jsonb_build_object(
        'command_id', command_id,
        'correlation_id', correlation_id,
        'outcome', case when outcome = 'COMPLETED' then 'SUCCESS' else 'FAILED' end,
        'final', outcome <> 'TSQ',
        'error_type', case error_kind when 'BUSINESS' then 'BUSINESS_RULE' else error_kind end,
        'error_code', error_code,
        'error_message', error_message,
        -- An earlier call may have had its effect, so the receiver of the reply may have to undo it (K-19).
        'effect', case when outcome = 'FAILED' then known_effect end
      )) || case when outcome = 'COMPLETED' then jsonb_build_object('result', result) else '{}' end,
        'notes', result_notes)) filter (where reply_to is not null and outcome <> 'RETRY')
    into v_applied, v_batches, v_replies
    from changed;

    if v_applied < jsonb_array_length(v_writes) then
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select v_now, 'commands', 'ORPHANED', (it ->> 'command_id')::uuid, jsonb_build_object('domain', p_domain, 'outcome', it ->> 'outcome')
      from jsonb_array_elements(v_writes) as it
      left join holdfast.command on command.command_id = (it ->> 'command_id')::uuid and command.domain || '' = p_domain
      where command.last_write is distinct from (it ->> 'token')::uuid;
    end if;
    if v_troubled is not null then
      perform holdfast.note_trouble(p_domain, v_now, v_writes);
    end if;
    if v_batches then
      perform holdfast.leave_batches(p_domain, v_now, v_writes);
    end if;
    if v_replies is not null then
      perform holdfast.send_replies(v_replies);
    end if;
  end if;

  if v_applied > coalesce(cardinality(v_retried), 0) then
    perform holdfast.wake_results('commands');
  end if;
  if v_applied = jsonb_array_length(writes) then
    return array_fill(0, array[v_applied]);
  end if;
  return holdfast.finish_answers(v_table, p_domain, writes, v_mine);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.finish_dispatch_cycle(p_type text, p_epoch integer, p_interval_ms double precision, p_rest_ms double precision, p_error text)
 RETURNS integer
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_rested timestamptz := v_now + p_rest_ms * interval '1 ms';
  v_ahead interval := (
    select pre_start_buffer_mins * interval '1 minute' from holdfast.dispatch_config where item_type = p_type
  );
  v_next timestamptz;
  v_count int;
begin
  if p_rest_ms > 0 then
    -- Only items that fall due from now on: those that are due already were left for a reason.
    select due_at
    into v_next
    from holdfast.dispatch_item
    where item_type = p_type and due_at > v_now + v_ahead and due_at <= v_rested + v_ahead
    order by due_at
    limit 1;
  end if;
  update holdfast.dispatch_cycle
  set due_at = greatest(v_now, leased_at + p_interval_ms * interval '1 ms', coalesce(v_next - v_ahead, v_rested)),
      lease_epoch = lease_epoch + 1,
      leased_by = null,
      leased_at = null,
      last_run_at = v_now,
      last_error = p_error
  where item_type = p_type and lease_epoch = p_epoch;
  if not found then
    return null;
  end if;
  update holdfast.dispatch_dead_letter set counted = true where item_type = p_type and not counted;
  get diagnostics v_count = row_count;
  return v_count;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.finish_inbox_group(p_head uuid, p_epoch integer, p_handed uuid[], p_refused jsonb, p_again_ms integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_head holdfast.process_inbox;
  v_names text[];
begin
  select * into v_head from holdfast.process_inbox where id = p_head and lease_epoch = p_epoch for update;
  if not found then
    return false;
  end if;
  v_names := holdfast.inbox_names(v_head.type, v_head.process_ref);
  if jsonb_array_length(p_refused) > 0 then
    insert into holdfast.audit (at, model, event, subject_id, subject_name, detail)
    select v_now, 'processes', 'RESPONSE_REFUSED', process.id,
      case when process.id is null then row.type || ' ' || row.process_ref end,
      jsonb_build_object('response', row.name, 'response_id', row.response_id, 'data', row.data,
        'code', asked.code, 'message', asked.message)
    from jsonb_to_recordset(p_refused) as asked (id uuid, process_id uuid, code text, message text)
    join holdfast.process_inbox as row on row.id = asked.id
    left join holdfast.process on process.id = asked.process_id;
  end if;
  delete from holdfast.process_inbox
  where id = any (p_handed || array(select (it ->> 'id')::uuid from jsonb_array_elements(p_refused) as it));
  -- A statement of its own, begun after the first row was locked: it sees the rows that others have put behind the group.
  update holdfast.process_inbox
  set due_at = v_now + p_again_ms * interval '1 ms', leased_by = null, leased_at = null
  where type = v_head.type and process_ref = any (v_names);
  if found then
    perform holdfast.wake('process-inbox:' || v_head.type);
  end if;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.fitting_processes(filter jsonb, most integer)
 RETURNS TABLE(id uuid, created_at timestamp with time zone, status text)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_types text[] := holdfast.process_types(filter ->> 'domain', filter ->> 'type');
  v_after_id uuid := (filter ->> 'after_id')::uuid;
  v_after_at timestamptz := coalesce(
    (select detail.created_at from holdfast.process_detail as detail where detail.id = v_after_id),
    (filter ->> 'after_at')::timestamptz
  );
  v_since timestamptz := coalesce((filter ->> 'since')::timestamptz, '-infinity');
  v_until timestamptz := least((filter ->> 'until')::timestamptz, v_after_at + interval '1 microsecond', 'infinity');
  v_filter jsonb := filter || jsonb_strip_nulls(jsonb_build_object('after_at', v_after_at));
begin
  return query
  select found.id, found.created_at, found.status
  from (
    select
      candidate.id,
      detail.created_at,
      case
        when process.leased_at is null then process.status
        when process.status = 'COMPENSATING' or holdfast.process_is_unwinding(process.id, process.generation)
          then 'COMPENSATING'
        else 'EXECUTING'
      end as status
    from holdfast.process_candidates(v_filter, v_types, v_since, v_until, most) as candidate (id)
    join holdfast.process_detail as detail on detail.id = candidate.id
    join holdfast.process on process.id = candidate.id
    where (detail.type = any (v_types) or filter ? 'ids')
      and detail.created_at >= v_since
      and detail.created_at < v_until
      and (v_after_id is null or (detail.created_at, detail.id) < (v_after_at, v_after_id))
      and (not filter ? 'waiting_for' or process.leased_at is null and detail.waiting_for = filter ->> 'waiting_for')
      and holdfast.process_fits(filter, detail.key, detail.batch_id, detail.parent_id, detail.attributes, process.status, process.leased_at)
  ) as found
  where not filter ? 'status' or found.status = filter ->> 'status';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.flush_managed_starts(starts jsonb)
 RETURNS json
 LANGUAGE sql
 SET lock_timeout TO '100ms'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select holdfast.start_managed(starts)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.flush_schedule(request jsonb)
 RETURNS json
 LANGUAGE sql
 SET lock_timeout TO '100ms'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select holdfast.schedule_items(request)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.flush_sends(request jsonb)
 RETURNS TABLE(in_domain text, id uuid, outcome text)
 LANGUAGE sql
 SET lock_timeout TO '100ms'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select * from holdfast.send_commands(request)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.flush_starts(starts jsonb)
 RETURNS json
 LANGUAGE sql
 SET lock_timeout TO '100ms'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select holdfast.start_processes(starts)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.fold_batch_tallies(p_batches uuid[], p_taken bigint[], p_most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids bigint[] := p_taken || array(
    select tally_id
    from holdfast.batch_tally
    where batch_id = any (p_batches) and tally_id <> all (p_taken)
    limit p_most
    for update skip locked
  );
begin
  with folded as (
    delete from holdfast.batch_tally
    where tally_id = any (v_ids)
    returning batch_id, added, completed, failed, cancelled
  ),
  summed as (
    select batch_id, sum(added) as added, sum(completed) as completed, sum(failed) as failed, sum(cancelled) as cancelled
    from folded
    group by batch_id
  )
  update holdfast.batch
  set tallied_total = tallied_total + summed.added,
      tallied_completed = tallied_completed + summed.completed,
      tallied_failed = tallied_failed + summed.failed,
      tallied_cancelled = tallied_cancelled + summed.cancelled
  from summed
  where batch.batch_id = summed.batch_id;
  return cardinality(v_ids);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.fold_idle_batches()
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_batch uuid;
  v_folded int;
  v_all int := 0;
begin
  for v_batch in
    select batch_id from holdfast.batch_tally where due_at is null group by batch_id having count(*) > 100 limit 100
  loop
    perform from holdfast.batch where batch_id = v_batch for no key update skip locked;
    if found then
      v_folded := holdfast.fold_batch_tallies(array[v_batch], '{}', 200000);
      v_all := v_all + v_folded;
    end if;
  end loop;
  return v_all;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.forget_lost_claim(p_source text, p_id text, p_epoch integer)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  delete from holdfast.lost_claim where source = p_source and id = p_id and epoch = p_epoch
$function$
;

CREATE OR REPLACE FUNCTION holdfast.forget_workers()
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  delete from holdfast.worker_definition as gone
  where gone.seen_at < holdfast.now() - interval '2 days'
    and exists (
      select from holdfast.worker_definition as other
      where other.model = gone.model and other.name = gone.name and other.version = gone.version
        and (other.seen_at, other.worker) > (gone.seen_at, gone.worker)
    )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.free_queued_processes(p_type text, p_now timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  update holdfast.process
  set due_at = p_now, queued_at = null
  where id = any (array(
    select id from holdfast.process
    where type = p_type and queued_at is not null
    order by id
    for no key update skip locked
  ));
  perform holdfast.wake('processes:' || p_type);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.free_unlimited_processes(types text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_type text;
begin
  for v_type in
    select noted.type
    from unnest(types) as noted (type)
    left join holdfast.process_setting as setting on setting.type = noted.type
    where setting.concurrency is null
      and exists (select from holdfast.process where process.type = noted.type and queued_at is not null)
    order by noted.type
  loop
    perform holdfast.free_queued_processes(v_type, holdfast.now());
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.full_name(p_domain text, p_type text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select p_domain || '/' || p_type
$function$
;

CREATE OR REPLACE FUNCTION holdfast.give_back_workflow_steps(ids uuid[], numbers smallint[], epochs integer[], freshness boolean[])
 RETURNS TABLE(workflow_id uuid, number smallint, epoch integer, definition_id integer, compensates boolean, attempts integer)
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  v_now timestamptz := holdfast.now();
  v_handler text;
begin
  for v_handler in
    with free as (
      select step.workflow_id, step.number, asked.fresh
      from (select * from unnest(ids, numbers, epochs, freshness) as asked (id, number, epoch, fresh) order by id, number) as asked
      cross join lateral (
        select workflow_id, number
        from holdfast.workflow_step
        where workflow_id = asked.id and number = asked.number and lease_epoch = asked.epoch and leased_at is not null
        for no key update skip locked
      ) as step
    ),
    released as (
      update holdfast.workflow_step as step
      set ready = true,
          due_at = v_now,
          leased_by = null,
          leased_at = null,
          -- Another worker may have seen it leased, and would decide on that.
          lease_epoch = step.lease_epoch + 1,
          in_flight = step.in_flight and not free.fresh,
          status = case when free.fresh and step.status = 'RUNNING' then 'PENDING' else step.status end,
          attempts = attempts - (free.fresh and not compensates)::int,
          compensation_attempts = compensation_attempts - (free.fresh and compensates)::int,
          started_at = case when compensates or attempts > 1 or not free.fresh then started_at end
      from free
      where step.workflow_id = free.workflow_id and step.number = free.number
        and (not free.fresh or not step.abort and step.status in ('RUNNING', 'COMPENSATING'))
      returning step.*, free.fresh
    ),
    noted as (
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select v_now, 'workflows', 'step_released', workflow_id, jsonb_build_object('step', name, 'status', status, 'attempts', attempts)
      from released
      where fresh and not compensates and number >= 0
    )
    select distinct handler from released
  loop
    perform holdfast.wake('workflows:' || v_handler);
  end loop;
  return query
    select step.workflow_id, step.number, step.lease_epoch, step.definition_id, step.compensates,
      case when step.compensates then step.compensation_attempts else step.attempts end
    from unnest(ids, numbers, epochs, freshness) as asked (id, number, epoch, fresh)
    join holdfast.workflow_step as step
      on step.workflow_id = asked.id and step.number = asked.number and step.lease_epoch = asked.epoch
    where asked.fresh and step.in_flight and step.leased_at is not null
      and (step.abort or step.status not in ('RUNNING', 'COMPENSATING'));
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.grant_runtime(role_name text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.has_dispatch_worker(p_engine text, p_exec_type text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from holdfast.worker_definition
    where model = case p_engine when 'PROCESS' then 'processes' else 'workflows' end
      and (p_engine <> 'PROCESS' or name = p_exec_type)
      and seen_at > holdfast.now() - interval '150 seconds'
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.hold_command(p_queue text, p_msg_id bigint, p_read_ct integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_held boolean;
begin
  execute format('select true from pgmq.%I where msg_id = $1 and read_ct = $2 for update', 'q_' || p_queue)
  into v_held using p_msg_id, p_read_ct;
  return coalesce(v_held, false);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.hold_dispatch_cycle(p_type text, p_epoch integer)
 RETURNS boolean
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from holdfast.dispatch_cycle where item_type = p_type and lease_epoch = p_epoch for no key update
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.hold_dispatched(p_type text, p_engine text)
 RETURNS integer
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_types text[] := (select exec_types from holdfast.dispatch_cycle where item_type = p_type);
  v_count int;
begin
  perform pg_advisory_xact_lock(holdfast.dispatch_gate(p_type));
  if p_engine = 'WORKFLOW' then
    -- No worker claims a start without a due time.
    update holdfast.workflow_step
    set handler = null, due_at = null, rank = null, ready = false
    where number = -1
      and workflow_id = any (holdfast.dispatched_starts(p_type, v_types))
      and leased_at is null;
  else
    update holdfast.process
    set due_at = null, queued_at = null
    where id = any (array(
      select id
      from holdfast.process
      where status = 'PENDING'
        and type = any (v_types)
        and leased_at is null
        and lease_epoch = unbegun_epoch
        and cancel is null
        and dispatch_type = p_type
      order by id
      for no key update
    ));
  end if;
  get diagnostics v_count = row_count;
  return v_count;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.hold_process(p_id uuid, p_epoch integer)
 RETURNS boolean
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from holdfast.process where id = p_id and lease_epoch = p_epoch for no key update
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.inbox_names(p_type text, p_ref text)
 RETURNS text[]
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select array_remove(array[p_ref, detail.id::text, detail.key], null)
  from (select holdfast.process_id_of(p_type, p_ref) as id) as named
  left join holdfast.process_detail as detail on detail.id = named.id and detail.type = p_type
$function$
;

CREATE OR REPLACE FUNCTION holdfast.is_absent(seen_at timestamp with time zone, age interval)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select seen_at is null or seen_at < holdfast.now() - age and holdfast.absence_counts()
$function$
;

CREATE OR REPLACE FUNCTION holdfast.is_between_attempts(p_domain text, p_command_id text, p_read_ct integer)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from holdfast.command
    where command_id = holdfast.uuid_or_null(p_command_id)
      and domain = p_domain
      and attempts >= p_read_ct
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.is_dispatch_paused(item_type text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select holdfast.is_paused(array['domain:' || split_part(item_type, '/', 1), 'definition:' || item_type])
$function$
;

CREATE OR REPLACE FUNCTION holdfast.is_known_subject(p_kind text, p_name text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_queue text;
  v_found boolean;
begin
  if p_kind = 'domain' then
    return exists (select from holdfast.command_queue where domain = p_name)
      or exists (select from holdfast.worker_definition where model = 'processes' and split_part(name, '/', 1) = p_name)
      or exists (select from holdfast.dispatch_config where split_part(item_type, '/', 1) = p_name)
      or cardinality(holdfast.process_types(p_name, null)) > 0
      or exists (select from holdfast.workflow_definition where split_part(name, '/', 1) = p_name);
  end if;
  if p_kind = 'definition' then
    if exists (select from holdfast.worker_definition where model in ('commands', 'processes') and name = p_name)
      or exists (select from holdfast.dispatch_config where item_type = p_name)
      or exists (select from holdfast.process_detail where type = p_name)
      or exists (select from holdfast.workflow_definition where name = p_name)
    then
      return true;
    end if;
  elsif exists (select from holdfast.worker_definition where model = 'workflows' and name = p_name)
    or exists (select from holdfast.workflow_step where handler = p_name and ready)
    or exists (select from holdfast.workflow_step where handler = p_name and not ready and due_at is not null)
    or exists (select from holdfast.worker_definition where model = 'commands' and split_part(name, '/', 2) = p_name)
  then
    return true;
  end if;
  -- Commands that wait for a handler that no worker has ever had.
  for v_queue in
    select queue from holdfast.command_queue
    where to_regclass(format('pgmq.%I', 'q_' || queue)) is not null
      and (p_kind = 'handler' or domain = split_part(p_name, '/', 1))
  loop
    execute format('select exists (select from pgmq.%I where message ->> ''command_type'' = $1)', 'q_' || v_queue)
    into v_found
    using case p_kind when 'handler' then p_name else split_part(p_name, '/', 2) end;
    if v_found then
      return true;
    end if;
  end loop;
  return false;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.is_paused(subjects text[])
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT (EXISTS ( SELECT
            FROM holdfast.pause
           WHERE (pause.subject = ANY (is_paused.subjects)))) AS "exists";
END
;

CREATE OR REPLACE FUNCTION holdfast.item_of_execution(p_type text, p_execution text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select case
    when starts_with(p_execution, 'exec:' || p_type || ':')
      then substring(substr(p_execution, length(p_type) + 7) from '^(.*):[0-9]+$')
    when starts_with(p_type, 'default/') and starts_with(p_execution, 'exec:' || substr(p_type, 9) || ':')
      then substring(substr(p_execution, length(p_type) - 1) from '^(.*):[0-9]+$')
  end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.join_batches(p_domain text, members uuid[], batches uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  insert into holdfast.batch_open (batch_id, command_id, domain)
  select batch_id, command_id, p_domain from unnest(batches, members) as member (batch_id, command_id);
  insert into holdfast.batch_tally (batch_id, added)
  select batch_id, count(*) from unnest(batches) as member (batch_id) group by batch_id;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.keyed_id(p_model text, p_domain text, p_type text, p_key text)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select overlay(overlay(
    left(encode(sha256(convert_to(
      '[' || concat_ws(',', to_json(p_model), to_json(p_domain), to_json(p_type), to_json(p_key)) || ']', 'UTF8'
    )), 'hex'), 32)
    -- A UUID of version 8, whose content is our own choice.
    placing '8' from 13) placing '8' from 17)::uuid
  where p_key is not null
$function$
;

CREATE OR REPLACE FUNCTION holdfast.known_replies(asked jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  return (
    select json_agg(json_build_array(
      asked_for.msg_id::text,
      case when last.started_id is distinct from asked_for.command_id then (
        select json_build_array(min(kind), min(name), min(occurrence), bool_or(status in ('COMPLETED', 'FAILED')))
        from holdfast.process_history
        where process_id = asked_for.id and detail ->> 'startedId' = asked_for.command_id
        having count(*) > 0
      ) end,
      asked_for.reply_id is not null and exists (
        select from holdfast.process_response
        where process_id = asked_for.id and response_id = 'reply:' || asked_for.reply_id
      )
    ))
    from jsonb_to_recordset(asked) as asked_for (msg_id bigint, id uuid, command_id text, reply_id text)
    cross join lateral (
      select history.detail ->> 'startedId' as started_id
      from holdfast.process_history as history
      where history.process_id = asked_for.id and history.kind not in ('RETRY', 'RESUME', 'UNWIND')
      order by generation desc, seq desc
      limit 1
    ) as last
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.last_seen(p_model text, p_name text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT max(worker_definition.seen_at) AS max
    FROM holdfast.worker_definition
   WHERE ((worker_definition.model = last_seen.p_model) AND (worker_definition.name = last_seen.p_name));
END
;

CREATE OR REPLACE FUNCTION holdfast.lease_inbox_group(p_type text, p_names text[], p_worker text, p_now timestamp with time zone, p_lease_ms integer)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_locked uuid[];
  v_leased uuid;
  v_until timestamptz;
  v_group uuid[];
  v_epoch int;
begin
  v_locked := array(
    select id from holdfast.process_inbox where type = p_type and process_ref = any (p_names) for no key update skip locked
  );
  select id, due_at
  into v_leased, v_until
  from holdfast.process_inbox
  where type = p_type and process_ref = any (p_names) and leased_at is not null and due_at > p_now
  limit 1;
  if v_leased is null then
    v_group := array(
      select id
      from (
        select id, place,
          bool_and(id = any (v_locked)) over up_to_here as mine,
          row_number() over up_to_here as number,
          sum(coalesce(pg_column_size(data), 0)) over up_to_here as bytes
        from holdfast.process_inbox
        where type = p_type and process_ref = any (p_names)
        window up_to_here as (order by place)
      ) as waiting
      where mine and (number = 1 or number <= 100 and bytes <= 8388608)
      order by place
    );
    v_until := p_now + p_lease_ms * interval '1 ms';
  end if;
  -- Behind a group whose first row we could lock: until its lease ends. Otherwise due now, for the next claim.
  update holdfast.process_inbox
  set due_at = case when v_leased = any (v_locked) or cardinality(v_group) > 0 then v_until else p_now end,
      leased_by = null,
      leased_at = null
  where id = any (v_locked) and id is distinct from v_leased and id is distinct from v_group[1];
  if coalesce(cardinality(v_group), 0) = 0 then
    return null;
  end if;
  update holdfast.process_inbox
  set due_at = v_until, lease_epoch = lease_epoch + 1, leased_by = p_worker, leased_at = p_now
  where id = v_group[1]
  returning lease_epoch into v_epoch;
  return (
    select json_build_object(
      'id', v_group[1], 'type', p_type, 'epoch', v_epoch,
      'responses', json_agg(json_build_object(
        'id', id, 'reference', process_ref, 'name', name, 'responseId', response_id, 'data', data, 'notes', notes,
        'checked', checked, 'ageMs', extract(epoch from p_now - created_at)::float8 * 1000
      ) order by place)
    )
    from holdfast.process_inbox
    where id = any (v_group)
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.lease_parts(p_table text, p_keys text[], p_types text[], p_held text, OUT arguments text, OUT asked text, OUT matches text, OUT id text, OUT asked_id text, OUT free text, OUT chosen text)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  arguments := 'ids ' || p_types[1] || '[]' || coalesce(', numbers ' || p_types[2] || '[]', '') || ', epochs int[]';
  asked := format(
    'unnest(ids%s, epochs) as asked (%s, epoch)',
    case when cardinality(p_keys) > 1 then ', numbers' end, array_to_string(p_keys, ', ')
  );
  select string_agg(format('it.%1$s = asked.%1$s', key), ' and '), string_agg('it.' || key, $id$ || '/' || $id$),
    string_agg('asked.' || key, $id$ || '/' || $id$),
    string_agg(format('it.%1$s = free.%1$s', key), ' and ') || ' and free.epoch = free.epoch + 0'
  into matches, id, asked_id, chosen
  from unnest(p_keys) as key;
  free := format(
    $part$
          select asked.*
          from (select * from %1$s order by %2$s) as asked
          cross join lateral (
            select
            from %3$s as it
            where %4$s and it.lease_epoch = asked.epoch and %5$s
            for no key update skip locked
          ) as locked$part$,
    asked, array_to_string(p_keys, ', '), 'holdfast.' || p_table, matches, p_held
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.lease_processes(ids uuid[], worker text, lease_ms integer)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  -- A claim loads about 32 MB at most (K-23): for each process a page of its history and a page of its responses. The execution reads
  -- further pages itself. The first row is always included.
  v_page int := greatest(16777216 / cardinality(ids), 16384);
  v_items json;
begin
  with claimed as (
    update holdfast.process
    set due_at = v_now + lease_ms * interval '1 ms',
        queued_at = null,
        lease_epoch = lease_epoch + 1,
        leased_by = worker,
        leased_at = v_now
    where process.id = any (ids)
    returning *
  )
  select json_agg(json_build_object(
    'id', it.id, 'type', it.type, 'version', it.version, 'epoch', it.lease_epoch, 'status', it.status,
    'restedEpoch', it.rested_epoch, 'generation', it.generation, 'responseCount', it.responses, 'cancel', it.cancel,
    'limited', exists (select from holdfast.process_slot where process_id = it.id),
    'now', floor(extract(epoch from v_now) * 1000),
    'deadline', floor(extract(epoch from it.deadline_at) * 1000),
    'mismatchSince', floor(extract(epoch from it.mismatch_since) * 1000),
    'startAt', floor(extract(epoch from detail.start_at) * 1000),
    'unbegun', it.unbegun_epoch = it.lease_epoch - 1,
    'createdAt', floor(extract(epoch from it.created_at) * 1000),
    'key', detail.key, 'state', detail.state, 'stateNotes', detail.state_notes, 'stateResponses', detail.state_responses, 'stateUnmet', detail.state_unmet,
    'stateChecked', detail.state_checked,
    -- Rows as arrays: a history of thousands of rows is read at once, and field names would be most of it. A first claim has none.
    'history', case
      when not (it.lease_epoch > 1 or it.generation > 1) then null
      when (
        select sum(holdfast.most_bytes(result) + holdfast.most_bytes(history.detail))
        from holdfast.process_history as history
        where process_id = it.id and history.generation = it.generation
      ) > v_page then holdfast.read_process_history(it.id, it.generation, 0, v_page)
      else (
        select json_agg(json_build_array(
          seq, floor(extract(epoch from at) * 1000), kind, name, occurrence, history.status, attempt, seen,
          floor(extract(epoch from next_at) * 1000), result, notes, history.detail, epoch
        ) order by seq)
        from holdfast.process_history as history
        where process_id = it.id and history.generation = it.generation
      )
    end,
    'historyLength', case when it.lease_epoch > 1 or it.generation > 1 then (
      select max(seq) from holdfast.process_history as history where process_id = it.id and history.generation = it.generation
    ) end,
    'stateEvents', detail.state_events,
    -- Without responses that an earlier generation has used. By the index, because there may be a million of those.
    'responses', case
      when it.responses = 0 then null
      when (
        select sum(bytes)
        from (
          select holdfast.most_bytes(unmet.data) as bytes
          from jsonb_array_elements_text(coalesce(detail.state_unmet, '[]')) as kept (number)
          join holdfast.process_response as unmet on unmet.process_id = it.id and unmet.number = kept.number::int
          union all
          select holdfast.most_bytes(data)
          from holdfast.process_response
          where process_id = it.id and number > detail.state_responses
        ) as measured
      ) > v_page then holdfast.read_process_responses(it.id, 0, v_page)
      else (
        select json_agg(json_build_array(number, name, data, notes) order by number)
        from (
          select unmet.number, unmet.name, unmet.data, unmet.notes
          from jsonb_array_elements_text(coalesce(detail.state_unmet, '[]')) as kept (number)
          join holdfast.process_response as unmet on unmet.process_id = it.id and unmet.number = kept.number::int
          union all
          select number, name, data, notes
          from holdfast.process_response
          where process_id = it.id and number > detail.state_responses
        ) as response
      )
    end
  ))
  into v_items
  from claimed as it
  join holdfast.process_detail as detail on detail.id = it.id;
  return coalesce(v_items, '[]');
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.leased_processes(types text[])
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  return query
  select process.id
  from unnest(types) as known (type)
  cross join lateral (
    select
      greatest(
        coalesce(max(definition.version), 1),
        (
          select version from holdfast.process
          where process.type = known.type and due_at is not null
          order by version desc
          limit 1
        )
      ) as newest,
      -- Callers that execute their own starts lease for 30 s.
      greatest(coalesce(max(lease_ms), 0), 30000) as lease_ms
    from holdfast.worker_definition as definition
    where definition.model = 'processes' and definition.name = known.type
  ) as bounds
  cross join lateral generate_series(1, bounds.newest) as version
  join holdfast.process on process.type = known.type
    and process.version = version.version
    and process.due_at <= holdfast.now() + bounds.lease_ms * interval '1 ms'
    and process.leased_at is not null;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.leave_batches(p_domain text, ids uuid[], p_now timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  with ended as (
    select command.command_id, command.batch_id, command.status
    from unnest(ids) as asked (id)
    -- This lookup must use the primary key: see `leave_batches` in commands-finish.sql.
    cross join lateral (
      select * from holdfast.command where command_id = asked.id and domain || '' = p_domain offset 0
    ) as command
    where command.batch_id is not null
  ),
  gone as (
    delete from holdfast.batch_open
    using ended
    where batch_open.batch_id = ended.batch_id and batch_open.command_id = ended.command_id and batch_open.domain = p_domain
    returning ended.batch_id, ended.status
  )
  insert into holdfast.batch_tally (batch_id, completed, cancelled, due_at)
  select batch_id, count(*) filter (where status = 'COMPLETED'), count(*) filter (where status = 'CANCELLED'), p_now
  from gone
  group by batch_id;
  if found then
    perform holdfast.wake('batches');
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.leave_batches(p_domain text, p_now timestamp with time zone, writes jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  with ended as (
    select command.command_id, command.batch_id, it ->> 'outcome' as outcome
    from jsonb_array_elements(writes) as it
    -- `offset 0` keeps the conditions below out of the lookup, so that it uses the primary key. Without statistics the planner believes
    -- that the index of batches is almost empty, and would read every command of the batch for each flush.
    cross join lateral (
      select * from holdfast.command where command_id = (it ->> 'command_id')::uuid and domain || '' = p_domain offset 0
    ) as command
    where command.batch_id is not null
      and it ->> 'outcome' <> 'RETRY'
      and command.last_write = (it ->> 'token')::uuid
  ),
  left_batch as (
    delete from holdfast.batch_open
    using ended
    where batch_open.batch_id = ended.batch_id
      and batch_open.command_id = ended.command_id
      and batch_open.domain = p_domain
      and ended.outcome <> 'TSQ'
  )
  insert into holdfast.batch_tally (batch_id, completed, failed, due_at)
  select
    batch_id,
    count(*) filter (where outcome = 'COMPLETED'),
    count(*) filter (where outcome = 'FAILED'),
    p_now
  from ended
  group by batch_id;
  perform holdfast.wake('batches');
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.load_workflows(ids uuid[])
 RETURNS TABLE(id uuid, definition_id integer, revision integer, last_write uuid, status text, input text, input_notes jsonb, output text, output_notes jsonb, failed_step text, failure jsonb, steps json)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  return query
  select
    workflow.id, workflow.definition_id, workflow.revision, workflow.last_write, workflow.status, workflow.input::text,
    workflow.input_notes, workflow.output::text, workflow.output_notes, workflow.failed_step, workflow.failure,
    (
      select json_agg(json_build_array(
        step.number, step.lease_epoch, step.status, step.input::text, step.input_notes, step.output::text, step.output_notes,
        step.attempts, step.compensation_attempts, step.ended_order, step.in_flight, step.side, step.failure, step.dlq,
        step.outcome, step.compensation_outcome
      ) order by step.number)
      from holdfast.workflow_step as step
      where step.workflow_id = workflow.id and step.number >= 0
    )
  from unnest(ids) as asked (id)
  join holdfast.workflow on workflow.id = asked.id;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.lock_due_items(p_type text, from_due timestamp with time zone, from_seq bigint, p_until timestamp with time zone, p_most integer, OUT ids text[], OUT last_due timestamp with time zone, OUT last_seq bigint)
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  select array_agg(item_id), (array_agg(due_at))[count(*)], (array_agg(seq))[count(*)]
  into ids, last_due, last_seq
  from (
    select item_id, due_at, seq
    from holdfast.dispatch_item
    where item_type = p_type
      and (due_at, seq) > (coalesce(from_due, '-infinity'), coalesce(from_seq, 0))
      and due_at <= p_until
    order by due_at, seq
    limit p_most
    for no key update skip locked
  ) as due;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.lock_troubled_process(p_id uuid)
 RETURNS boolean
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select status = 'WAITING_FOR_TSQ' from holdfast.process where id = p_id for no key update
$function$
;

CREATE OR REPLACE FUNCTION holdfast.lost_claim_json(lost_alone integer, lost_shared integer, counted boolean, interrupted boolean, first_to_try boolean)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select json_build_object(
    'alone', lost_alone, 'shared', lost_shared, 'counted', counted, 'interrupted', interrupted, 'firstToTry', first_to_try
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.make_bucket(key text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  insert into holdfast.rate_limit_bucket (resource_key, full_at, written_at, tickets_per_second, burst)
  select resource_key, holdfast.now(), holdfast.now(), tickets_per_second, holdfast.effective_burst(tickets_per_second, burst)
  from holdfast.rate_limit
  where resource_key = key
  on conflict do nothing
$function$
;

CREATE OR REPLACE FUNCTION holdfast.make_claim_function(p_name text, p_table text, p_key text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform holdfast.make_function(
    p_name,
    'lanes text[], worker text, most int, lease_ms int, spare_leased boolean, ceiling_ms int, out items json, out next_due_ms float8',
    format(
      $body$
      declare
        v_now timestamptz := %1$snow();
        v_lanes text[] := array(
          select it.%3$s
          from %2$s as it
          where it.%3$s = any (lanes) and it.due_at <= v_now and (it.leased_at is null or not spare_leased)
          order by it.due_at
          limit most
          for no key update skip locked
        );
      begin
        with claimed as (
          update %2$s as it
          set due_at = v_now + lease_ms * interval '1 ms', lease_epoch = lease_epoch + 1, leased_by = worker, leased_at = v_now
          where it.%3$s = any (v_lanes)
          returning it.%3$s as lane, it.lease_epoch
        )
        select coalesce(json_agg(json_build_object('id', lane, 'type', lane, 'epoch', lease_epoch)), '[]') into items from claimed;
        select extract(epoch from min(it.due_at) - v_now) * 1000
        into next_due_ms
        from %2$s as it
        where it.%3$s = any (lanes) and it.due_at > v_now and it.due_at <= v_now + ceiling_ms * interval '1 ms';
      end
      $body$,
      'holdfast.', 'holdfast.' || p_table, p_key
    )
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.make_ending_function(p_verb text, p_name text, p_table text, p_keys text[], p_types text[], p_lane text, p_topic text DEFAULT NULL::text, p_changes text DEFAULT ''::text, p_beside text DEFAULT 'select'::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_parts record;
begin
  select * into v_parts from holdfast.lease_parts(p_table, p_keys, p_types, '(it.leased_at is not null)');
  perform holdfast.make_function(
    p_verb || p_name, v_parts.arguments || ', out ended int',
    format(
      $body$
      declare
        v_lanes text[];
        v_lane text;
      begin
        with free as materialized (%1$s
        ),
        beside as (%2$s),
        changed as (
          update %3$s as it
          set due_at = %4$snow()%5$s
          from free
          where %8$s
          returning it.%6$s as lane
        )
        select array_agg(distinct lane), count(*) into v_lanes, ended from changed;
        foreach v_lane in array coalesce(v_lanes, '{}') loop
          %7$s;
        end loop;
      end
      $body$,
      v_parts.free, p_beside, 'holdfast.' || p_table, 'holdfast.', p_changes, p_lane,
      -- The row is due before a worker would poll, and its slot may be what other processes wait for.
      case when p_topic is null then 'null' else format('perform %swake(%L || v_lane)', 'holdfast.', p_topic) end,
      v_parts.chosen
    ),
    holdfast.planner_looped()
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.make_extend_function(p_name text, p_table text, p_keys text[], p_types text[], p_held text DEFAULT '(it.leased_at is not null)'::text, p_more text DEFAULT ''::text, p_changes text DEFAULT ''::text, p_lease_ms text DEFAULT 'lease_ms'::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_parts record;
begin
  select * into v_parts from holdfast.lease_parts(p_table, p_keys, p_types, p_held);
  perform holdfast.make_function(
    'extend_' || p_name, v_parts.arguments || p_more || ', lease_ms int, out extended json, out lost json',
    format(
      $body$
      begin
        with free as materialized (%1$s
        ),
        moved as (
          update %2$s as it
          set due_at = %3$snow() + %4$s * interval '1 ms'%5$s
          from free
          where %11$s
          returning %6$s as id
        )
        select
          (select coalesce(json_agg(moved.id), '[]') from moved),
          (
            select coalesce(json_agg(%7$s), '[]')
            from %8$s
            left join %2$s as it on %9$s
            where it.lease_epoch is null or it.lease_epoch <> asked.epoch or not %10$s
          )
        into extended, lost;
      end
      $body$,
      v_parts.free, 'holdfast.' || p_table, 'holdfast.', p_lease_ms, p_changes, v_parts.id, v_parts.asked_id, v_parts.asked,
      v_parts.matches, p_held, v_parts.chosen
    ),
    holdfast.planner_looped()
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.make_function(p_name text, p_arguments text, p_body text, p_settings text DEFAULT ''::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_definition constant text := format(
    'create or replace function %s%I(%s) language plpgsql %s set search_path = pg_catalog, pg_temp as %L',
    'holdfast.', p_name, p_arguments, p_settings, p_body
  );
begin
  begin
    execute v_definition;
  exception when invalid_function_definition then
    -- A function with another result type cannot be replaced.
    execute format('drop function %s%I', 'holdfast.', p_name);
    execute v_definition;
  end;
  execute format('comment on function %s%I is %L', 'holdfast.', p_name, 'internal: may change with every release');
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.make_functions_of_new_queue()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform holdfast.make_queue_functions(new.queue);
  return null;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.make_oldest_function(p_name text, p_table text, p_matches text, p_lanes text DEFAULT 'unnest(lanes) as lane (name)'::text, p_due text DEFAULT 'it.due_at <= v_now'::text, p_since text DEFAULT 'due_at'::text, p_order text DEFAULT 'it.due_at'::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform holdfast.make_function(
    'oldest_' || p_name, 'lanes text[], out seconds float8',
    format(
      $body$
      declare
        v_now timestamptz := %1$snow();
      begin
        select extract(epoch from v_now - min(oldest.since))
        into seconds
        from %2$s,
        lateral (
          select it.%3$s as since
          from %4$s as it
          where %5$s and %6$s
          order by %7$s
          limit 1
        ) as oldest;
      end
      $body$,
      'holdfast.', p_lanes, p_since, 'holdfast.' || p_table, p_matches, p_due, p_order
    ),
    holdfast.planner_looped()
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.make_queue_functions(p_queue text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform holdfast.make_function(
    'put_' || p_queue,
    'ids bigint[], visible timestamptz[], messages jsonb[], headers jsonb[], out inserted int',
    format(
      $body$
      begin
        insert into pgmq.%1$I (msg_id, vt, message, headers)
        overriding system value
        select * from unnest(ids, visible, messages, headers);
        get diagnostics inserted = row_count;
      end
      $body$, 'q_' || p_queue
    )
  );

  -- One statement for all lanes, which fill the limit one after the other. A row that another transaction changed after the statement
  -- began has another ctid; the next claim finds it.
  --
  -- A claim reads at most `most_bytes` (K-23). Messages are measured first as stored and then in memory, because a compressed message
  -- may be 250 times as large there. Messages of up to 500 stored bytes are counted as stored, and if all are that small, nothing is
  -- measured one by one. The first message is always claimed, whatever its size; `is_full` says that more messages are due.
  perform holdfast.make_function(
    'take_' || p_queue,
    'domain text, lane_types text[], lane_froms float8[], due_by timestamptz, leased_until timestamptz, most int, '
      'spare_leased boolean, ceiling_ms int, most_bytes int default 33554432, '
      'out ids bigint[], out reads int[], out messages jsonb[], out headers jsonb[], '
      'out count int, out last_lane int, out last_vt timestamptz, out next_vt timestamptz, out is_full boolean',
    format(
      $body$
      begin
        with due as materialized (
          select lane.place, queue.ctid, queue.vt, queue.stored
          from unnest(lane_types, lane_froms) with ordinality as lane (type, start, place),
          lateral (
            select q.ctid, q.vt, pg_column_size(q.message) as stored
            from pgmq.%1$I as q
            where q.message ->> 'command_type' = lane.type
              and q.vt >= coalesce(to_timestamp(lane.start / 1000), '-infinity')
              and q.vt <= due_by
              and (not spare_leased or q.read_ct = 0 or %2$sis_between_attempts(domain, q.message ->> 'command_id', q.read_ct))
            order by q.vt
            for update skip locked
          ) queue
          limit most
        ),
        totals as materialized (
          select count(*) as found, coalesce(max(due.stored) <= 500 and sum(due.stored) <= most_bytes, true) as are_small
          from due
        ),
        measured as (
          select near.place, near.ctid, near.vt, case
              when near.stored <= 500 then near.stored
              else (select pg_column_size(q.message || '{}') from pgmq.%1$I as q where q.ctid = near.ctid)
            end as bytes
          from (
            select due.*, sum(due.stored) over (order by due.place, due.vt, due.ctid rows unbounded preceding) - due.stored as before
            from due
          ) as near
          where near.before < most_bytes
        ),
        fitting as materialized (
          select due.place, due.ctid, due.vt from due where (select totals.are_small from totals)
          union all
          select running.place, running.ctid, running.vt
          from (
            select measured.*,
              sum(measured.bytes) over (order by measured.place, measured.vt, measured.ctid rows unbounded preceding)
                - measured.bytes as before
            from measured
            where not (select totals.are_small from totals)
          ) as running
          where running.before = 0 or running.before + running.bytes <= most_bytes
        ),
        taken as (
          update pgmq.%1$I as q
          set vt = leased_until, read_ct = q.read_ct + 1
          where q.ctid = any (array(select fitting.ctid from fitting))
          returning q.msg_id, q.read_ct, q.message, q.headers
        )
        select
          array_agg(taken.msg_id), array_agg(taken.read_ct), array_agg(taken.message), array_agg(taken.headers),
          (select count(*) from fitting),
          (select max(fitting.place) from fitting),
          (select max(fitting.vt) from fitting where fitting.place = (select max(fitting.place) from fitting)),
          (select totals.found from totals) = most or (select totals.found from totals) > (select count(*) from fitting)
        into ids, reads, messages, headers, count, last_lane, last_vt, is_full
        from taken;
        if not is_full then
          select min(queue.vt) into next_vt
          from unnest(lane_types) as lane (type),
          lateral (
            select q.vt
            from pgmq.%1$I as q
            where q.message ->> 'command_type' = lane.type
              and q.vt > due_by
              and q.vt <= due_by + ceiling_ms * interval '1 ms'
            order by q.vt
            limit 1
          ) queue;
        end if;
      end
      $body$, 'q_' || p_queue, 'holdfast.'
    )
  );

  -- Returns the messages whose lease the caller still has. A message that another transaction changed after the statement began has
  -- another ctid and is missing from the result; the caller treats it as locked and tries again.
  perform holdfast.make_function(
    'end_' || p_queue,
    'ids bigint[], reads int[], done boolean[], out mine bigint[]',
    format(
      $body$
      begin
        with free as materialized (
          select asked.is_done, queue.msg_id, queue.ctid
          from unnest(ids, reads, done) as asked (msg_id, read_ct, is_done),
          lateral (
            select q.msg_id, q.ctid
            from pgmq.%1$I as q
            where q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
            for update skip locked
          ) queue
        ),
        gone as (
          delete from pgmq.%1$I as q
          where q.ctid = any (array(select free.ctid from free where free.is_done))
          returning q.msg_id
        )
        select coalesce(array_agg(ours.msg_id), '{}')
        into mine
        from (select gone.msg_id from gone union all select free.msg_id from free where not free.is_done) ours;
      end
      $body$, 'q_' || p_queue
    )
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.managed_processes(asked jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids uuid[] := array(select distinct (it ->> 'id')::uuid from jsonb_array_elements(asked) as it);
begin
  return (
    select json_agg(json_build_object(
      'id', process.id, 'type', process.type, 'version', process.version, 'status', process.status,
      'epoch', process.lease_epoch, 'generation', process.generation, 'cancel', process.cancel,
      'responses', process.responses, 'now', floor(extract(epoch from holdfast.now()) * 1000),
      'deadline', floor(extract(epoch from process.deadline_at) * 1000),
      'seq', coalesce((
        select max(seq) from holdfast.process_history where process_id = process.id and generation = process.generation
      ), 0),
      'state', case when detail.projection_responses is null then detail.state else detail.projection end,
      'stateNotes', case when detail.projection_responses is null then detail.state_notes else detail.projection_notes end,
      'seen', coalesce(detail.projection_responses, 0),
      -- A process that was started through SQL has no record before a worker has begun it.
      'last', json_build_array(coalesce(last.seq, 0), coalesce(last.kind, 'WAIT'), coalesce(last.name, ''), coalesce(last.occurrence, 0),
        coalesce(last.status, 'STARTED'), last.attempt, last.result, last.notes, last.detail,
        floor(extract(epoch from coalesce(last.at, detail.created_at)) * 1000)),
      'ahead', case when process.responses > coalesce(detail.projection_responses, 0) then (
        select json_agg(json_build_array(number, data) order by number)
        from holdfast.process_response
        where process_id = process.id and number > coalesce(detail.projection_responses, 0)
      ) end,
      'unwind', case when last.kind = 'COMPENSATION' then (
        select history.detail
        from holdfast.process_history as history
        where process_id = process.id and history.generation = process.generation and history.kind = 'UNWIND'
        order by seq desc
        limit 1
      ) end
    ))
    from holdfast.process
    join holdfast.process_detail as detail on detail.id = process.id
    left join lateral (
      select *
      from holdfast.process_history as history
      where history.process_id = process.id
        and history.generation = process.generation
        and history.kind not in ('RETRY', 'RESUME', 'UNWIND')
      order by seq desc
      limit 1
    ) as last on true
    where process.id = any (v_ids)
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.may_reply(p_domain text, p_queue text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from holdfast.command_queue
    where domain = p_domain and p_queue = regexp_replace(queue, '__commands$', '__replies')
  ) or exists (
    select from holdfast.reply_queue where domain = p_domain and queue = p_queue
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.meet_scheduled(p_type text, it jsonb, p_version integer, p_checked boolean, p_replace boolean, p_now timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_time timestamptz := to_timestamp((it -> 1)::float8 / 1000);
  v_hash bigint := holdfast.context_hash(it -> 2, it -> 3);
  v_there holdfast.dispatch_item;
begin
  select * into v_there from holdfast.dispatch_item where item_type = p_type and item_id = it ->> 0;
  if v_there.exec_time = v_time and v_there.context_hash = v_hash then
    return 'same';
  end if;
  if not coalesce(p_replace, false) then
    return case when v_there.exec_time = v_time then 'other context' else 'other time' end;
  end if;
  update holdfast.dispatch_item
  set exec_time = v_time, due_at = v_time, context_hash = v_hash, init_workflow_id = it ->> 4, updated_at = p_now
  where item_type = p_type and item_id = it ->> 0 and status = 'READY';
  if not found then
    return (select status from holdfast.dispatch_item where item_type = p_type and item_id = it ->> 0);
  end if;
  insert into holdfast.dispatch_context (
    item_type, item_id, context, notes, context_version, checked, details, created_at, updated_at
  )
  values (p_type, it ->> 0, it -> 2, nullif(it -> 3, 'null'), p_version, p_checked, nullif(it -> 5, 'null'), p_now, p_now)
  on conflict (item_type, item_id) do update
  set context = excluded.context, notes = excluded.notes, context_version = excluded.context_version,
      checked = excluded.checked, details = excluded.details, updated_at = excluded.updated_at;
  insert into holdfast.audit (at, model, event, subject_name, before, after)
  values (p_now, 'dispatch', 'RESCHEDULED', p_type || '/' || v_there.item_id,
    jsonb_build_object('status', 'READY', 'execTime', v_there.exec_time),
    jsonb_build_object('status', 'READY', 'execTime', v_time));
  return 'replaced';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.most_bytes(p_value jsonb)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT COALESCE((pg_column_size(p_value) *
         CASE
             WHEN (pg_column_compression(p_value) IS NULL) THEN 1
             ELSE 100
         END), 0) AS "coalesce";
END
;

CREATE OR REPLACE FUNCTION holdfast.new_dispatch_starts(config holdfast.dispatch_config, p_count integer)
 RETURNS timestamp with time zone[]
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_slots record;
  v_step interval := config.dispatch_interval_secs / config.batch_size * interval '1 second';
  v_from timestamptz;
begin
  if config.rate_limit_key is not null then
    select * into v_slots
    from holdfast.reserve_slots(array[config.rate_limit_key], array[p_count], array[1e12::float8], false);
    if v_slots.outcome <> 'reserved' then
      return null;
    end if;
    return array(
      select to_timestamp((v_slots.at_us + greatest(0, v_slots.first_us + nth * v_slots.step_us)) / 1e6)
      from generate_series(0, p_count - 1) as nth
      order by nth
    );
  end if;
  insert into holdfast.dispatch_pace (item_type, until) values (config.item_type, v_now) on conflict do nothing;
  select greatest(v_now, until) into v_from
  from holdfast.dispatch_pace
  where item_type = config.item_type
  for no key update skip locked;
  if not found then
    return null;
  end if;
  update holdfast.dispatch_pace set until = v_from + p_count * v_step where item_type = config.item_type;
  return array(select v_from + nth * v_step from generate_series(0, p_count - 1) as nth order by nth);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.newest_definition(p_type text)
 RETURNS integer
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select max(version)
  from holdfast.worker_definition
  where model = 'processes' and name = p_type
    and seen_at > holdfast.last_seen('processes', p_type) - interval '1 hour'
$function$
;

CREATE OR REPLACE FUNCTION holdfast.next_execution_id(item_type text, item_id text, failed_executions integer, last_id text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT
         CASE
             WHEN ("right"(last_id, length((':'::text || failed_executions))) = (':'::text || failed_executions)) THEN last_id
             ELSE holdfast.execution_id(item_type, item_id, failed_executions)
         END AS execution_id;
END
;

CREATE OR REPLACE FUNCTION holdfast.note_beat()
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  update holdfast.presence
  set last_beat_at = holdfast.now(),
      steady_since = case
        when holdfast.now() - last_beat_at between interval '0' and interval '150 s' then steady_since
        else holdfast.now()
      end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_begun_claim(p_source text, p_id text, p_epoch integer, p_state text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  update holdfast.lost_claim
  set state = p_state, at = holdfast.now()
  where source = p_source and id = p_id and epoch = p_epoch
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_dispatch(p_type text, p_engine text, settings jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_defaults holdfast.dispatch_config;
begin
  if exists (select from holdfast.dispatch_config where item_type = p_type and engine = p_engine)
    and exists (select from holdfast.dispatch_cycle where item_type = p_type)
    and (p_engine <> 'REMOTE' or exists (select from holdfast.dispatch_cycle where item_type = p_type || ':checks'))
  then
    return;
  end if;
  insert into holdfast.dispatch_config (item_type, engine, created_at, updated_at)
  values (p_type, p_engine, v_now, v_now)
  on conflict (item_type) do nothing
  returning * into v_defaults;
  if found then
    perform holdfast.set_dispatch_config(p_type, settings);
  else
    update holdfast.dispatch_config
    set engine = p_engine, exec_workflow_type = null, exec_task_queue = null, updated_at = v_now
    where item_type = p_type and engine <> p_engine;
  end if;
  insert into holdfast.dispatch_cycle (item_type, due_at) values (p_type, v_now) on conflict (item_type) do nothing;
  -- Checks of remote executions are a cycle of its own, beside the cycle of releases (D-13). No type has a colon.
  if p_engine = 'REMOTE' then
    insert into holdfast.dispatch_cycle (item_type, due_at) values (p_type || ':checks', v_now)
    on conflict (item_type) do nothing;
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_dispatch_failures(config holdfast.dispatch_config, p_failed integer, p_began integer, p_reason text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_cycle holdfast.dispatch_cycle;
begin
  select * into v_cycle from holdfast.dispatch_cycle where item_type = config.item_type;
  if p_failed <= 0 and v_cycle.failures_in_row = 0 or v_cycle.tripped_at is not null then
    return null;
  end if;
  update holdfast.dispatch_cycle
  set failures_in_row = case when p_began > 0 then 0 else failures_in_row + p_failed end
  where item_type = config.item_type
  returning * into v_cycle;
  if config.trip_after is null or v_cycle.failures_in_row < config.trip_after then
    return null;
  end if;
  update holdfast.dispatch_cycle
  set tripped_at = v_now, trip_reason = left(p_reason, 2000)
  where item_type = config.item_type;
  insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
  values (v_now, 'dispatch', 'TRIPPED', config.item_type, '{"tripped": false}', '{"tripped": true}', jsonb_build_object(
    'failuresInRow', v_cycle.failures_in_row, 'tripAfter', config.trip_after, 'reason', left(p_reason, 2000)
  ));
  return left(p_reason, 2000);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_exec_type(p_type text, p_exec_type text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  update holdfast.dispatch_cycle
  set exec_types = exec_types || p_exec_type
  where item_type = p_type and p_exec_type <> all (exec_types)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_interrupted_claims(p_source text, ids text[], epochs integer[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  insert into holdfast.lost_claim (source, id, epoch, state, at)
  select p_source, it.id, it.epoch, 'interrupted', holdfast.now()
  from unnest(ids, epochs) as it (id, epoch)
  order by it.id
  on conflict (source, id) do update
  set epoch = excluded.epoch, state = excluded.state, at = excluded.at
  where lost_claim.epoch <= excluded.epoch
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_missing_handlers()
 RETURNS TABLE(handler text, waiting bigint, oldest_seconds double precision)
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
begin
  return query
  with recursive ready as (
    (select step.handler as name from holdfast.workflow_step as step where step.ready order by step.handler limit 1)
    union all
    select (
      select step.handler
      from holdfast.workflow_step as step
      where step.ready and step.handler > ready.name
      order by step.handler
      limit 1
    )
    from ready
    where ready.name is not null
  ),
  delayed as (
    (
      select step.handler as name
      from holdfast.workflow_step as step
      where not step.ready and step.due_at is not null
      order by step.handler
      limit 1
    )
    union all
    select (
      select step.handler
      from holdfast.workflow_step as step
      where not step.ready and step.due_at is not null and step.handler > delayed.name
      order by step.handler
      limit 1
    )
    from delayed
    where delayed.name is not null
  ),
  missing as (
    select queued.name
    from (select name from ready union select name from delayed) as queued
    where queued.name is not null and holdfast.is_absent(holdfast.last_seen('workflows', queued.name), interval '2 minutes')
  ),
  longest as (
    select missing.name as wanted, step.*
    from missing
    cross join lateral (
      (
        select it.workflow_id, it.name, it.status, it.scheduled_at
        from holdfast.workflow_step as it
        where it.handler = missing.name and it.ready
        order by it.rank, it.scheduled_at
        limit 1
      )
      union all
      (
        select it.workflow_id, it.name, it.status, it.scheduled_at
        from holdfast.workflow_step as it
        where it.handler = missing.name and not it.ready and it.due_at <= v_now
        order by it.due_at
        limit 1
      )
      order by scheduled_at
      limit 1
    ) as step
  ),
  told as (
    insert into holdfast.missed_handler as known (handler, missed_at)
    select wanted, v_now from longest order by wanted
    on conflict on constraint missed_handler_pkey do update set missed_at = v_now
    where known.missed_at <= v_now - interval '1 minute'
    returning known.handler
  ),
  noted as (
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'workflows', 'step_skipped_missing_handler', longest.workflow_id,
      jsonb_build_object('step', longest.name, 'status', longest.status, 'handler', longest.wanted)
    from longest
    join told on told.handler = longest.wanted
  )
  select
    longest.wanted,
    -- Counts up to a limit, which is enough to see the size of the backlog.
    (
      select count(*)
      from (select from holdfast.workflow_step as it where it.handler = longest.wanted and it.ready limit 10000) as first_ones
    ) + (
      select count(*)
      from (
        select
        from holdfast.workflow_step as it
        where it.handler = longest.wanted and not it.ready and it.due_at <= v_now
        limit 10000
      ) as first_ones
    ),
    extract(epoch from v_now - longest.scheduled_at)::float8
  from longest;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_trouble(p_domain text, p_now timestamp with time zone, writes jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  insert into holdfast.command_trouble (
    command_id, domain, type, since, error_kind, error_code, error_message, error_stack, fingerprint, batch_id
  )
  select command_id, p_domain, type, p_now, error_kind, error_code, error_message, it ->> 'error_stack',
    it ->> 'fingerprint', batch_id
  from jsonb_array_elements(writes) as it
  join holdfast.command on command.command_id = (it ->> 'command_id')::uuid and command.domain || '' = p_domain
  where it ->> 'outcome' = 'TSQ' and command.last_write = (it ->> 'token')::uuid;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_worker(p_worker text, p_has jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  insert into holdfast.worker_definition as known (model, name, version, worker, lease_ms, seen_at)
  select has.model, has.name, has.version, p_worker, has.lease_ms, holdfast.now()
  from jsonb_to_recordset(p_has) as has (model text, name text, version int, lease_ms int)
  order by has.model, has.name, has.version
  on conflict (model, name, version, worker) do update
  set seen_at = excluded.seen_at, lease_ms = greatest(known.lease_ms, excluded.lease_ms);
  perform holdfast.note_beat();
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.note_worker_stopped(p_worker text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  update holdfast.worker_definition
  set seen_at = least(seen_at, holdfast.now() - interval '150 s')
  where worker = p_worker
$function$
;

CREATE OR REPLACE FUNCTION holdfast.now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT (statement_timestamp() + ( SELECT clock.shift
            FROM holdfast.clock));
END
;

CREATE OR REPLACE FUNCTION holdfast.oldest_chores(lanes text[], OUT seconds double precision)
 RETURNS double precision
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_now timestamptz := holdfast.now();
      begin
        select extract(epoch from v_now - min(oldest.since))
        into seconds
        from unnest(lanes) as lane (name),
        lateral (
          select it.due_at as since
          from holdfast.chore as it
          where it.name = lane.name and it.due_at <= v_now
          order by it.due_at
          limit 1
        ) as oldest;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.oldest_command_seconds(p_queue text, types text[])
 RETURNS double precision
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_oldest timestamptz;
begin
  if types is null then
    execute format('select vt from pgmq.%I where vt <= $1 order by vt limit 1', 'q_' || p_queue)
    into v_oldest using holdfast.now();
  else
    execute format(
      $query$
      select min(oldest.vt)
      from unnest($1) as type,
      lateral (
        select vt from pgmq.%I where message ->> 'command_type' = type.type and vt <= $2 order by vt limit 1
      ) oldest
      $query$, 'q_' || p_queue
    ) into v_oldest using types, holdfast.now();
  end if;
  return extract(epoch from holdfast.now() - v_oldest);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.oldest_dispatch_cycles(lanes text[], OUT seconds double precision)
 RETURNS double precision
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_now timestamptz := holdfast.now();
      begin
        select extract(epoch from v_now - min(oldest.since))
        into seconds
        from unnest(lanes) as lane (name),
        lateral (
          select it.due_at as since
          from holdfast.dispatch_item as it
          where it.item_type = lane.name and it.due_at <= v_now
          order by it.due_at
          limit 1
        ) as oldest;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.oldest_inbox(lanes text[], OUT seconds double precision)
 RETURNS double precision
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_now timestamptz := holdfast.now();
      begin
        select extract(epoch from v_now - min(oldest.since))
        into seconds
        from unnest(lanes) as lane (name),
        lateral (
          select it.due_at as since
          from holdfast.process_inbox as it
          where it.type = lane.name and it.due_at <= v_now
          order by it.due_at
          limit 1
        ) as oldest;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.oldest_processes(lanes text[], OUT seconds double precision)
 RETURNS double precision
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_now timestamptz := holdfast.now();
      begin
        select extract(epoch from v_now - min(oldest.since))
        into seconds
        from (
          select distinct name as type, version from holdfast.worker_definition where model = 'processes' and name = any (lanes)
        ) as lane,
        lateral (
          select it.due_at as since
          from holdfast.process as it
          where it.type = lane.type and it.version = lane.version and it.due_at <= v_now
          order by it.due_at
          limit 1
        ) as oldest;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.oldest_workflow_steps(lanes text[], OUT seconds double precision)
 RETURNS double precision
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_now timestamptz := holdfast.now();
      begin
        select extract(epoch from v_now - min(oldest.since))
        into seconds
        from unnest(lanes) as lane (name),
        lateral (
          select it.scheduled_at as since
          from holdfast.workflow_step as it
          where it.handler = lane.name and it.ready
          order by it.rank, it.scheduled_at
          limit 1
        ) as oldest;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.open_messages(p_domain text, p_worker text, p_now timestamp with time zone, ids bigint[], reads integer[], messages jsonb[], headers jsonb[], OUT items json, OUT strays bigint[], OUT malformed bigint[])
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_commands uuid[] := holdfast.command_ids_in(p_domain, messages);
  v_first_attempt jsonb := jsonb_build_object('attempt', 1, 'domain', p_domain, 'worker', p_worker);
  v_unknown int;
  v_received uuid[];
  v_attempts int[];
begin
  for v_look in 1 .. 2 loop
    with opened as (
      select
        taken.*,
        command.command_id is not null as known,
        coalesce(command.status = 'PENDING' and command.msg_id = taken.msg_id, false) as current,
        v_look = 2 and coalesce(command.error_code = 'INVALID_MESSAGE' and command.updated_at = p_now, false) as refused,
        command.type,
        command.correlation_id,
        command.batch_id,
        command.max_attempts,
        command.version,
        command.uncounted,
        command.inquiry,
        extract(epoch from p_now - coalesce(command.run_at, command.created_at))::float8 * 1000 as waited_ms
      from unnest(ids, reads, v_commands, messages, headers) as taken (msg_id, read_ct, command_id, message, header)
      left join holdfast.command on command.command_id = taken.command_id and command.domain || '' = p_domain
    )
    select
      -- Aggregating rows takes half the time of json_build_object.
      json_agg(item) filter (where current),
      array_agg(msg_id) filter (where known and not current and not refused),
      array_agg(msg_id) filter (where command_id is null or refused),
      array_agg(command_id) filter (where current),
      array_agg(read_ct - opened.uncounted) filter (where current),
      count(*) filter (where command_id is not null and not known)
    into items, strays, malformed, v_received, v_attempts, v_unknown
    from opened,
    lateral (
      select
        msg_id::text as id, type, read_ct as epoch, command_id as "commandId", correlation_id as "correlationId",
        batch_id as "batchId", max_attempts as "maxAttempts",
        message -> 'data' as data, header -> 'notes' as notes, version, uncounted, inquiry,
        waited_ms as "waitedMs"
    ) item;
    exit when v_unknown = 0;

    -- Once adopted, they are opened again with the others.
    perform holdfast.adopt_messages(p_domain, p_now, ids, messages, headers);
  end loop;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  select p_now, 'commands', 'RECEIVED', command_id,
    case attempt when 1 then v_first_attempt else jsonb_build_object('attempt', attempt, 'domain', p_domain, 'worker', p_worker) end
  from unnest(v_received, v_attempts) as received (command_id, attempt);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.open_replies(p_domain text, ids bigint[], reads integer[], messages jsonb[], headers jsonb[], OUT items json, OUT asked jsonb, OUT unknown json, OUT strays bigint[], OUT malformed bigint[], OUT paused bigint[])
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_uuid constant text := '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';
  v_pauses text[];
begin
  v_pauses := array(select substr(subject, 12) from holdfast.pause where subject like 'definition:%');
  with taken as (
    select
      taken.msg_id,
      taken.read_ct,
      taken.message,
      taken.header,
      case
        when jsonb_typeof(taken.message) = 'object'
          and taken.message ->> 'correlation_id' ~ v_uuid
          and taken.message ->> 'outcome' in ('SUCCESS', 'FAILED', 'CANCELLED')
          and (not taken.message ? 'final' or jsonb_typeof(taken.message -> 'final') = 'boolean')
        then (taken.message ->> 'correlation_id')::uuid
      end as process_id
    from unnest(ids, reads, messages, headers) as taken (msg_id, read_ct, message, header)
  ),
  opened as materialized (
    select
      taken.*,
      process.type,
      detail.model,
      coalesce(detail.model = 'STEP_BASED' and process.type = any (v_pauses), false) as is_paused
    from taken
    left join holdfast.process on process.id = taken.process_id and split_part(process.type, '/', 1) = p_domain
    left join holdfast.process_detail as detail on detail.id = process.id
  )
  select
    json_agg(json_build_object(
      'id', msg_id::text, 'type', p_domain, 'epoch', read_ct, 'processId', process_id, 'processType', type, 'model', model,
      'message', message, 'notes', header -> 'notes'
    ) order by msg_id) filter (where type is not null and not is_paused),
    jsonb_agg(jsonb_build_object(
      'msg_id', msg_id, 'id', process_id, 'command_id', lower(message ->> 'command_id'), 'reply_id', message ->> 'reply_id'
    )) filter (where model = 'STEP_BASED' and not is_paused),
    json_agg(json_build_object('commandId', message ->> 'command_id', 'correlationId', process_id))
      filter (where process_id is not null and type is null),
    array_agg(msg_id) filter (where process_id is not null and type is null),
    array_agg(msg_id) filter (where process_id is null),
    array_agg(msg_id) filter (where is_paused)
  into items, asked, unknown, strays, malformed, paused
  from opened;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.operate_commands(p_action text, p_domain text, ids uuid[], p_actor text, p_reason text, p_data jsonb, p_notes jsonb, p_version integer)
 RETURNS TABLE(command_id uuid, outcome text)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_queue text := (select queue from holdfast.command_queue where domain = p_domain);
  v_action text := case p_action when 'NOT_DONE' then 'RETRY' else p_action end;
  v_taken uuid[];
  v_replies jsonb;
begin
  if v_action = 'RETRY' and v_queue is not null and not holdfast.queue_exists(v_queue) then
    return query select asked.id, 'queue gone' from unnest(ids) as asked (id);
    return;
  end if;
  v_taken := array(
    select trouble.command_id from holdfast.command_trouble as trouble
    where trouble.domain = p_domain
      and trouble.command_id = any (ids)
      and not (p_action = 'RETRY' and exists (
        select from holdfast.command
        where command.command_id = trouble.command_id and command.domain = p_domain and inquiry = 'impossible'
      ))
    order by trouble.command_id
    for update
  );
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, detail, before, after)
  select
    v_now, 'commands', 'OPERATOR_' || v_action, command.command_id, p_actor, p_reason, jsonb_build_object('domain', p_domain),
    jsonb_build_object('status', status, 'attempts', attempts, 'error_code', error_code)
      || case when p_data is not null and v_action = 'RETRY' then jsonb_build_object('data', data) else '{}' end,
    case v_action
      when 'RETRY' then jsonb_build_object('status', 'PENDING')
        || case p_action when 'NOT_DONE' then '{"notDone": true}' else '{}' end::jsonb
        || case when p_data is not null then jsonb_build_object('data', p_data) else '{}' end
      when 'CANCEL' then jsonb_build_object('status', 'CANCELLED')
      else jsonb_build_object('status', 'COMPLETED', 'result', p_data)
    end
  from holdfast.command
  where command.domain = p_domain and command.command_id = any (v_taken);
  delete from holdfast.command_trouble as trouble
  where trouble.domain = p_domain and trouble.command_id = any (v_taken);

  if cardinality(v_taken) = 0 then
    null;
  elsif v_action = 'RETRY' then
    execute format(
      $query$
      with again as (
        update %2$s.command
        set status = 'PENDING', attempts = 0, uncounted = 0, updated_at = $3, last_write = null,
            msg_id = nextval(pg_get_serial_sequence('pgmq.%1$I', 'msg_id')),
            data = coalesce($4, data), notes = case when $4 is null then notes else nullif($5, 'null') end,
            version = case when $4 is null then version else $6 end,
            error_kind = null, error_code = null, error_message = null,
            inquiry = case when $7 then null else inquiry end, effect = case when $7 then null else effect end
        where domain = $1 and command_id = any ($2)
        returning *
      )
      insert into pgmq.%1$I (msg_id, vt, message, headers)
      overriding system value
      select
        msg_id, $3,
        jsonb_build_object(
          'domain', domain, 'command_type', type, 'command_id', command_id, 'correlation_id', correlation_id,
          'data', data, 'reply_to', reply_to
        ),
        case when notes is not null then jsonb_build_object('notes', notes) end
      from again
      $query$, 'q_' || v_queue, holdfast.own_schema()
    ) using p_domain, v_taken, v_now, p_data, p_notes, p_version, p_action = 'NOT_DONE';
    perform holdfast.wake('commands:' || p_domain);
  else
    with ended as (
      update holdfast.command
      set status = case p_action when 'CANCEL' then 'CANCELLED' else 'COMPLETED' end,
          updated_at = v_now,
          last_write = null,
          inquiry = null,
          effect = case p_action when 'CANCEL' then effect end,
          result = case p_action when 'CANCEL' then null else p_data end,
          result_notes = case p_action when 'CANCEL' then null else nullif(p_notes, 'null') end,
          error_kind = case p_action when 'CANCEL' then error_kind end,
          error_code = case p_action when 'CANCEL' then error_code end,
          error_message = case p_action when 'CANCEL' then error_message end
      where command.domain = p_domain and command.command_id = any (v_taken)
      returning command.*
    )
    select
      jsonb_agg(jsonb_build_object('domain', p_domain, 'queue', reply_to, 'command_id', ended.command_id, 'notes', result_notes,
        'message', jsonb_strip_nulls(jsonb_build_object(
          'command_id', ended.command_id, 'correlation_id', correlation_id, 'final', true,
          'outcome', case p_action when 'CANCEL' then 'CANCELLED' else 'SUCCESS' end,
          -- It may have had its effect, so the receiver of the reply may have to undo it (K-19).
          'effect', effect
        )) || case p_action when 'CANCEL' then '{}' else jsonb_build_object('result', result) end
      )) filter (where reply_to is not null)
    into v_replies
    from ended;
    perform holdfast.leave_batches(p_domain, v_taken, v_now);
    if v_replies is not null then
      perform holdfast.send_replies(v_replies);
    end if;
  end if;

  return query
  select asked.id, case
      when asked.id = any (v_taken) then 'done'
      when exists (
        select from holdfast.command
        where command.command_id = asked.id and command.domain = p_domain and command.status = 'IN_TROUBLESHOOTING_QUEUE'
      ) then 'outcome unknown'
      when exists (select from holdfast.command where command.command_id = asked.id and command.domain = p_domain)
        then 'not in troubleshooting'
      else 'unknown'
    end
  from unnest(ids) with ordinality as asked (id, place)
  order by place;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.operate_dispatch_items(p_operation text, p_type text, ids text[], change jsonb, p_actor text, p_reason text)
 RETURNS TABLE("itemId" text, outcome text, "executionId" text)
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_from text[] := case
    when p_operation = 'CANCEL' then array['READY', 'DEAD_LETTER']
    when p_operation in ('RETRY', 'DISCARD', 'COMPLETE') then array['DEAD_LETTER']
    else array['READY']
  end;
  v_exec_time timestamptz := to_timestamp((change -> 'execTime')::float8 / 1000);
  v_first timestamptz;
  v_ids text[];
begin
  v_ids := array(
    select item.item_id
    from holdfast.dispatch_item as item
    where item.item_type = p_type
      and item.item_id = any (ids)
      and (
        item.status = any (v_from)
        or item.status = 'CLAIMED'
          and item.last_error is not null
          and (change -> 'inTrouble') is null
          and (p_operation = 'COMPLETE' or p_operation = 'RETRY' and (change -> 'notDone')::boolean)
      )
    order by item.item_id
    for no key update
  );
  if p_operation = 'EXPEDITE' then
    -- Before all other waiting items.
    select least(v_now, due_at - interval '1 ms') into v_first
    from holdfast.dispatch_item
    where item_type = p_type and due_at is not null
    order by due_at, seq
    limit 1;
  end if;
  with before as materialized (
    select item.item_id, item.status, item.exec_time, item.last_error
    from holdfast.dispatch_item as item
    where item.item_type = p_type and item.item_id = any (v_ids)
  ),
  changed as (
    update holdfast.dispatch_item as item
    set status = case p_operation when 'CANCEL' then 'FAILED' when 'DISCARD' then 'FAILED' when 'COMPLETE' then 'COMPLETED' else 'READY' end,
        retry_count = case when p_operation = 'RETRY' then 0 else item.retry_count end,
        exec_time = case
          when p_operation in ('RESCHEDULE', 'RETRY') then coalesce(v_exec_time, item.exec_time)
          when p_operation = 'EXPEDITE' then least(item.exec_time, v_now)
          else item.exec_time
        end,
        due_at = case p_operation
          when 'RESCHEDULE' then coalesce(v_exec_time, item.due_at)
          when 'RETRY' then greatest(coalesce(v_exec_time, item.exec_time), v_now)
          when 'EXPEDITE' then v_first
        end,
        check_at = null,
        completed_at = case when p_operation in ('CANCEL', 'DISCARD', 'COMPLETE') then v_now end,
        context_hash = case
          when p_operation = 'RESCHEDULE' and change ? 'context'
            then holdfast.context_hash(change -> 'context', nullif(change -> 'notes', 'null'))
          else item.context_hash
        end,
        last_error = case
          when p_operation = 'CANCEL' and before.status = 'READY' then 'CANCELLED: cancelled by ' || p_actor || ': ' || p_reason
          else item.last_error
        end,
        updated_at = v_now
    from before
    where item.item_type = p_type and item.item_id = before.item_id
    returning item.item_id, item.status, item.exec_time, before.status as status_before, before.exec_time as exec_time_before,
      before.last_error as error_before
  )
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
  select v_now, 'dispatch',
    case p_operation when 'RESCHEDULE' then 'RESCHEDULED' when 'EXPEDITE' then 'EXPEDITED' when 'RETRY' then 'REQUEUED'
      when 'COMPLETE' then 'COMPLETED_BY_HAND' else 'CANCELLED' end,
    p_type || '/' || changed.item_id, p_actor, p_reason,
    jsonb_strip_nulls(jsonb_build_object('status', status_before, 'execTime', exec_time_before, 'error', error_before)),
    jsonb_strip_nulls(jsonb_build_object('status', status, 'execTime', exec_time,
      'contextChanged', case when p_operation = 'RESCHEDULE' and change ? 'context' then true end))
  from changed;
  if p_operation = 'RESCHEDULE' and change ? 'context' then
    insert into holdfast.dispatch_context (
      item_type, item_id, context, notes, context_version, checked, details, created_at, updated_at
    )
    select p_type, id, change -> 'context', nullif(change -> 'notes', 'null'), (change ->> 'version')::int,
      (change ->> 'checked')::boolean, nullif(change -> 'details', 'null'), v_now, v_now
    from unnest(v_ids) as id
    on conflict (item_type, item_id) do update
    set context = excluded.context, notes = excluded.notes, context_version = excluded.context_version,
        checked = excluded.checked, details = excluded.details, updated_at = excluded.updated_at;
  elsif p_operation in ('CANCEL', 'DISCARD', 'COMPLETE') then
    delete from holdfast.dispatch_context as context where context.item_type = p_type and context.item_id = any (v_ids);
    delete from holdfast.dispatch_dead_letter as letter where letter.item_type = p_type and letter.item_id = any (v_ids);
    perform holdfast.wake_results('dispatch');
  else
    delete from holdfast.dispatch_dead_letter as letter where letter.item_type = p_type and letter.item_id = any (v_ids);
    perform holdfast.wake('dispatch');
  end if;
  return query
  select asked.id, case
      when asked.id = any (v_ids) then 'done'
      when item.item_id is null then 'unknown'
      else item.status
    end, case when asked.id <> all (v_ids) then item.execution_id end
  from unnest(ids) with ordinality as asked (id, place)
  left join holdfast.dispatch_item as item on item.item_type = p_type and item.item_id = asked.id collate "C"
  order by asked.place;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.operate_processes(p_action text, p_type text, refs text[], p_actor text, p_reason text, options jsonb)
 RETURNS TABLE(ref text, process_id uuid, outcome text, actual text)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  for ref, process_id, actual in
    select asked.ref, detail.id, detail.type
    from unnest(refs) as asked (ref)
    left join holdfast.process_detail as detail on detail.id = holdfast.process_id_of(p_type, asked.ref)
    -- In the order of ids, so that two operators cannot deadlock.
    order by detail.id
  loop
    outcome := case
      when process_id is null then 'unknown'
      when actual <> p_type then 'other type'
      when (options -> 'in_trouble')::boolean and not holdfast.lock_troubled_process(process_id) then 'not in trouble'
      when p_action = 'RETRY' then holdfast.retry_process(process_id, p_actor, p_reason, options)
      when p_action = 'CANCEL' then holdfast.cancel_process(process_id, options ->> 'mode', p_actor, p_reason)
      when p_action = 'RESUME' then holdfast.resume_process(process_id, p_actor, p_reason)
      when p_action = 'RESOLVE' then holdfast.resolve_process(process_id, p_actor, p_reason, options)
    end;
    return next;
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.option_of(p_function text, p_options jsonb, p_name text, p_kind text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.own_schema()
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select relnamespace::regnamespace::text from pg_class where oid = (select tableoid from holdfast.clock)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.patch_ended(writes jsonb, v_now timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  update holdfast.process
  set lease_epoch = lease_epoch + 1, last_write = asked.token
  from jsonb_to_recordset(writes) as asked (id uuid, token uuid, late boolean)
  where process.id = asked.id and asked.late;
  update holdfast.process_detail
  set projection = asked.projection, projection_notes = asked.projection_notes, projection_responses = asked.seen, updated_at = v_now
  from jsonb_to_recordset(writes) as asked (
    id uuid, late boolean, has_projection boolean, projection jsonb, projection_notes jsonb, seen int
  )
  where process_detail.id = asked.id and asked.late and asked.has_projection;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  select v_now, 'processes', 'LATE_ASYNC_RESPONSE', asked.id, asked.late_detail
  from jsonb_to_recordset(writes) as asked (id uuid, late boolean, late_detail jsonb)
  where asked.late;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.payload_bytes()
 RETURNS integer
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select coalesce((select value::int from holdfast.setting where name = 'payload_bytes'), 1048576)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.place_response()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  update holdfast.process_inbox set place = nextval('holdfast.process_inbox_place') where id = new.id;
  return null;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.planner_looped()
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select 'set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off'
$function$
;

CREATE OR REPLACE FUNCTION holdfast.post_responses(responses jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_type text;
begin
  insert into holdfast.process_inbox (id, type, process_ref, name, response_id, data, notes, checked, created_at, due_at)
  select asked.inbox_id, asked.type, asked.process_ref, asked.name, asked.response_id, asked.data, asked.notes,
    asked.checked, v_now, v_now
  from rows from (
    jsonb_to_recordset(responses) as (
      inbox_id uuid, type text, process_ref text, name text, response_id text, data jsonb, notes jsonb, checked boolean
    )
  ) with ordinality as asked (inbox_id, type, process_ref, name, response_id, data, notes, checked, place)
  order by asked.place
  on conflict (id) do nothing;
  for v_type in select distinct it ->> 'type' from jsonb_array_elements(responses) as it loop
    perform holdfast.wake('process-inbox:' || v_type);
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.problem_of_message(message jsonb, header jsonb, p_limit integer)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if length(message ->> 'command_type') > 200 then
    return 'its command_type has more than 200 characters';
  elsif message ->> 'correlation_id' is not null and holdfast.uuid_or_null(message ->> 'correlation_id') is null then
    return 'its correlation_id is not a UUID: ' || left(message ->> 'correlation_id', 100);
  elsif jsonb_typeof(message -> 'reply_to') not in ('string', 'null') then
    return 'its reply_to is not a text';
  elsif jsonb_typeof(header -> 'notes') not in ('object', 'null') then
    return 'its type notes are not an object';
  elsif jsonb_typeof(header -> 'notes') = 'object' and exists (
    select from jsonb_each(header -> 'notes') as note (pointer, kind) where jsonb_typeof(kind) <> 'string'
  ) then
    return 'its type notes are not all texts';
  elsif pg_column_size(message || '{}') > 8.0 * p_limit + 65536 then
    return 'its data takes more than ' || p_limit || ' bytes';
  elsif jsonb_path_exists(message -> 'data', 'lax $.** ? (@.type() == "number") ? (
    @ > 1.8e308 || @ < -1.8e308 || (@ != 0 && @ < 4e-324 && @ > -4e-324)
  )') then
    return 'it holds a number that a double cannot hold';
  elsif coalesce(octet_length((message -> 'data')::text), 0) + coalesce(octet_length((header -> 'notes')::text), 0) > p_limit then
    return 'its data takes more than ' || p_limit || ' bytes';
  end if;
  return null;
exception when program_limit_exceeded or out_of_memory then
  return 'its data takes more than ' || p_limit || ' bytes';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_before(p_id uuid)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select jsonb_strip_nulls(jsonb_build_object(
    'status', process.status, 'waitingFor', detail.waiting_for, 'errorCode', detail.error_code,
    'errorMessage', detail.error_message
  ))
  from holdfast.process
  join holdfast.process_detail as detail on detail.id = process.id
  where process.id = p_id
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_can(p_id uuid, p_generation integer)
 RETURNS text[]
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_candidates(filter jsonb, types text[], since timestamp with time zone, until timestamp with time zone, most integer)
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_status text := filter ->> 'status';
  v_leased boolean := coalesce(v_status in ('EXECUTING', 'COMPENSATING'), false);
  -- There are few leased processes, and the caller filters them.
  v_most int := case when not v_leased then most end;
  -- The last row of the page before.
  v_after_at timestamptz := coalesce((filter ->> 'after_at')::timestamptz, 'infinity');
  v_after_id uuid := coalesce((filter ->> 'after_id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  if filter ? 'ids' then
    return query select id::uuid from jsonb_array_elements_text(filter -> 'ids') as id;
  elsif filter ? 'key' then
    return query select id from holdfast.process_detail where type = any (types) and key = filter ->> 'key';
  elsif filter ? 'batch_id' then
    return query
    select detail.id
    from holdfast.process_detail as detail
    join holdfast.process on process.id = detail.id
    where detail.batch_id = (filter ->> 'batch_id')::uuid
      and detail.type = any (types)
      and detail.created_at >= since
      and detail.created_at < until
      and (detail.created_at, detail.id) < (v_after_at, v_after_id)
      and (not filter ? 'waiting_for' or detail.waiting_for = filter ->> 'waiting_for')
      and holdfast.process_fits(filter, detail.key, detail.batch_id, detail.parent_id, detail.attributes, process.status, process.leased_at)
    order by detail.created_at desc, detail.id desc
    limit v_most;
  elsif filter ? 'parent_id' then
    return query select id from holdfast.process_detail where parent_id = (filter ->> 'parent_id')::uuid;
  elsif filter ? 'waiting_for' then
    -- Among suspended processes that have not ended, however old the table is.
    return query
    select newest.id
    from unnest(types) as known (type)
    cross join unnest(
      case
        when v_status is null then array['WAITING_FOR_ASYNC', 'WAITING_FOR_RETRY', 'WAITING_FOR_REPLY', 'WAITING_FOR_TSQ', 'COMPENSATING']
        else array[v_status]
      end
    ) as resting (status)
    cross join lateral (
      select process.id
      from holdfast.process
      join holdfast.process_detail as detail on detail.id = process.id
      where process.status = resting.status
        and process.status <> 'COMPLETED'
        and process.type = known.type
        and process.leased_at is null
        and process.created_at >= since
        and process.created_at < until
        and (process.created_at, process.id) < (v_after_at, v_after_id)
        and detail.waiting_for = filter ->> 'waiting_for'
        and (not filter ? 'attributes' or detail.attributes @> (filter -> 'attributes'))
      order by process.created_at desc, process.id desc
      limit most
    ) as newest;
  elsif filter ? 'attributes' or v_status is null or v_status = 'COMPLETED' then
    -- If many processes have these attributes, the newest are found by time, and a few by their attributes: the planner chooses.
    return query
    select newest.id
    from unnest(types) as known (type)
    cross join lateral (
      select detail.id
      from holdfast.process_detail as detail
      join holdfast.process on process.id = detail.id
      where detail.type = known.type
        and detail.created_at >= since
        and detail.created_at < until
        and (detail.created_at, detail.id) < (v_after_at, v_after_id)
        and (not filter ? 'attributes' or detail.attributes @> (filter -> 'attributes'))
        and (v_status is distinct from 'COMPLETED' or process.status = 'COMPLETED')
        and holdfast.process_fits(filter, detail.key, detail.batch_id, detail.parent_id, detail.attributes, process.status, process.leased_at)
      order by detail.created_at desc, detail.id desc
      limit v_most
    ) as newest;
  else
    return query
    select newest.id
    from unnest(types) as known (type)
    cross join lateral (
      select process.id
      from holdfast.process
      where process.status = v_status
        and process.status <> 'COMPLETED'
        and process.type = known.type
        and leased_at is null
        and process.created_at >= since
        and process.created_at < until
        and (process.created_at, process.id) < (v_after_at, v_after_id)
      order by process.created_at desc, process.id desc
      limit most
    ) as newest;
    if v_leased then
      return query select leased.id from holdfast.leased_processes(types) as leased (id);
    end if;
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_fits(filter jsonb, key text, batch_id uuid, parent_id uuid, attributes jsonb, status text, leased_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT (((NOT (filter ? 'key'::text)) OR (key = (filter ->> 'key'::text))) AND ((NOT (filter ? 'batch_id'::text)) OR (batch_id = ((filter ->> 'batch_id'::text))::uuid)) AND ((NOT (filter ? 'parent_id'::text)) OR (parent_id = ((filter ->> 'parent_id'::text))::uuid)) AND ((NOT (filter ? 'attributes'::text)) OR (attributes @> (filter -> 'attributes'::text))) AND ((NOT (filter ? 'longer_than_ms'::text)) OR (leased_at <= (holdfast.now() - (((filter ->> 'longer_than_ms'::text))::double precision * '00:00:00.001'::interval)))) AND
         CASE (filter ->> 'status'::text)
             WHEN 'EXECUTING'::text THEN (leased_at IS NOT NULL)
             WHEN 'COMPENSATING'::text THEN ((leased_at IS NOT NULL) OR (status = 'COMPENSATING'::text))
             ELSE ((NOT (filter ? 'status'::text)) OR ((leased_at IS NULL) AND (status = (filter ->> 'status'::text))))
         END);
END
;

CREATE OR REPLACE FUNCTION holdfast.process_goes_on(p_id uuid, p_now timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  delete from holdfast.process_trouble where id = p_id;
  update holdfast.process_detail
  set updated_at = p_now, waiting_for = null, wait_timeout_at = null, next_retry_at = null,
      error_kind = null, error_code = null, error_message = null
  where id = p_id;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_id_of(p_type text, p_ref text)
 RETURNS uuid
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select case
    when p_ref ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_ref::uuid
    else (select id from holdfast.process_detail where type = p_type and key = p_ref)
  end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_is_unwinding(p_id uuid, p_generation integer)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from holdfast.process_history
    where process_id = p_id and generation = p_generation and kind = 'UNWIND'
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_news(ids uuid[], heard integer[])
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select json_agg(json_build_object('id', process.id, 'cancel', process.cancel, 'responses', (
    select json_agg(json_build_array(number, name, data, notes) order by number)
    from holdfast.process_response
    where process_id = process.id and number > asked.heard
  )))
  from unnest(ids, heard) as asked (id, heard)
  join holdfast.process on process.id = asked.id
  where process.responses > asked.heard or process.cancel is not null
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_types(p_domain text, p_type text)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if p_domain is not null and p_type is not null then
    return array[p_domain || '/' || p_type];
  end if;
  return array(
    with recursive types as (
      (select type from holdfast.process_detail order by type limit 1)
      union all
      select (select next.type from holdfast.process_detail as next where next.type > types.type order by next.type limit 1)
      from types
      where types.type is not null
    )
    select type from types
    where type is not null
      and (p_domain is null or split_part(type, '/', 1) = p_domain)
      and (p_type is null or split_part(type, '/', 2) = p_type)
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.process_write_answers(writes jsonb, mine uuid[])
 RETURNS json
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select json_agg(
    case
      when asked.id = any (mine) or process.last_write = asked.token then to_json(0)
      when process.id is null or process.lease_epoch <> asked.epoch then to_json(1)
      when asked.to_status is null
        or process.responses = asked.responses and (process.cancel is null or asked.heard_cancel) then to_json(2)
      else json_build_object('cancel', process.cancel, 'responses', (
        select json_agg(json_build_array(number, name, data, notes) order by number)
        from holdfast.process_response
        where process_id = asked.id and number > asked.responses
      ))
    end
    order by asked.place
  )
  from rows from (
    jsonb_to_recordset(writes) as (id uuid, epoch int, token uuid, to_status text, responses int, heard_cancel boolean)
  ) with ordinality as asked (id, epoch, token, to_status, responses, heard_cancel, place)
  left join holdfast.process on process.id = asked.id
$function$
;

CREATE OR REPLACE FUNCTION holdfast.processes_ended(ids uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_type text;
begin
  -- Only an inbox row: this transaction must not lock the parent's own row.
  insert into holdfast.process_inbox (id, type, process_ref, name, response_id, data, notes, checked, created_at, due_at)
  select gen_random_uuid(), parent.type, parent.id::text, '@child', detail.id::text,
    jsonb_build_object(
      'call', detail.parent_call, 'id', detail.id, 'status', process.status, 'undone', detail.undone,
      'result', detail.result, 'resultNotes', detail.result_notes,
      'error', case when detail.error_code is not null then
        jsonb_build_object('code', detail.error_code, 'message', detail.error_message) end
    ),
    null, true, v_now, v_now
  from holdfast.process_detail as detail
  join holdfast.process on process.id = detail.id
  join holdfast.process as parent on parent.id = detail.parent_id
  where detail.id = any (ids);
  for v_type in
    select distinct parent.type
    from holdfast.process_detail as detail
    join holdfast.process as parent on parent.id = detail.parent_id
    where detail.id = any (ids)
  loop
    perform holdfast.wake('process-inbox:' || v_type);
  end loop;

  if exists (select from holdfast.process_detail where id = any (ids) and batch_id is not null) then
    with ended as (
      select detail.id, detail.batch_id, process.status, detail.type
      from holdfast.process_detail as detail
      join holdfast.process on process.id = detail.id
      where detail.id = any (ids) and detail.batch_id is not null
    ),
    left_batch as (
      delete from holdfast.batch_open
      using ended
      where batch_open.batch_id = ended.batch_id and batch_open.command_id = ended.id and batch_open.domain = ended.type
    )
    insert into holdfast.batch_tally (batch_id, completed, failed, cancelled, due_at)
    select batch_id, count(*) filter (where status = 'COMPLETED'), count(*) filter (where status in ('FAILED', 'COMPENSATED')),
      count(*) filter (where status = 'CANCELLED'), v_now
    from ended
    group by batch_id;
    perform holdfast.wake('batches');
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.protect_audit_partition(partition regclass)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  execute format(
    'create or replace trigger audit_is_append_only before truncate on %s for each statement execute function %srefuse_audit_change()',
    partition, 'holdfast.'
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.queue_exists(p_queue text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from pg_catalog.pg_class
    where oid = to_regclass(format('pgmq.%I', 'q_' || p_queue)) and relkind in ('r', 'p')
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.queue_instance_starts(ids uuid[], definition_ids integer[], starts timestamp with time zone[], unchecked boolean[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_aging float4 := holdfast.workflow_aging();
begin
  insert into holdfast.workflow_step (
    workflow_id, number, definition_id, name, status, handler, due_at, ready, scheduled_at, priority, aging, rank, reached_at
  )
  select asked.id, -1, definition_id, lane, 'PENDING', lane, start_at, start_at <= v_now, start_at, 50, v_aging,
    holdfast.workflow_rank(start_at, 50, v_aging), v_now
  from unnest(ids, definition_ids, starts, unchecked) as asked (id, definition_id, start_at, is_unchecked)
  left join holdfast.workflow_definition as definition
    on asked.is_unchecked and definition.id = asked.definition_id and definition.checks_input
  cross join lateral (select concat('_root_', ' ' || definition.name || '-v' || definition.version) as lane) as named;
  perform holdfast.wake('workflows:_root_');
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.read_managed(p_queue text, asked jsonb)
 RETURNS TABLE(managed json, known json, mine json)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_mine json;
begin
  execute format(
    $query$
    select json_agg(q.msg_id::text)
    from jsonb_to_recordset($1) as asked (msg_id bigint, read_ct int)
    join pgmq.%I as q on q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
    $query$, 'q_' || p_queue
  ) into v_mine using asked;
  return query select holdfast.managed_processes(asked), holdfast.known_replies(asked), coalesce(v_mine, '[]');
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.read_process_history(p_id uuid, p_generation integer, p_after integer, p_bytes integer)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_row holdfast.process_history;
  v_rows json[] := '{}';
  v_next json;
  v_bytes int := 0;
begin
  for v_row in
    select * from holdfast.process_history
    where process_id = p_id and generation = p_generation and seq > p_after
    order by seq
  loop
    v_next := json_build_array(
      v_row.seq, floor(extract(epoch from v_row.at) * 1000), v_row.kind, v_row.name, v_row.occurrence, v_row.status, v_row.attempt,
      v_row.seen, floor(extract(epoch from v_row.next_at) * 1000), v_row.result, v_row.notes, v_row.detail, v_row.epoch
    );
    v_bytes := v_bytes + octet_length(v_next::text);
    exit when v_bytes > p_bytes and cardinality(v_rows) > 0;
    v_rows := v_rows || v_next;
    exit when v_bytes > p_bytes;
  end loop;
  return array_to_json(v_rows);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.read_process_responses(p_id uuid, p_after integer, p_bytes integer)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_row record;
  v_rows json[] := '{}';
  v_next json;
  v_bytes int := 0;
begin
  for v_row in
    select unmet.number, unmet.name, unmet.data, unmet.notes
    from holdfast.process_detail as detail,
      jsonb_array_elements_text(coalesce(detail.state_unmet, '[]')) as kept (number),
      holdfast.process_response as unmet
    where detail.id = p_id
      and unmet.process_id = p_id
      and unmet.number = kept.number::int
      and unmet.number > p_after
    union all
    select response.number, response.name, response.data, response.notes
    from holdfast.process_response as response
    where response.process_id = p_id
      and response.number > greatest(p_after, (select state_responses from holdfast.process_detail where id = p_id))
    order by number
  loop
    v_next := json_build_array(v_row.number, v_row.name, v_row.data, v_row.notes);
    v_bytes := v_bytes + octet_length(v_next::text);
    exit when v_bytes > p_bytes and cardinality(v_rows) > 0;
    v_rows := v_rows || v_next;
    exit when v_bytes > p_bytes;
  end loop;
  return array_to_json(v_rows);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.receive_commands(queue text, domain text, lane_types text[], lane_froms double precision[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer)
 RETURNS TABLE(items json, marks json, next_due_ms double precision, not_ours integer)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET enable_sort TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_types text[] := lane_types;
  v_froms float8[] := lane_froms;
  v_ids bigint[];
  v_reads int[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_count int;
  v_last_lane int;
  v_last_vt timestamptz;
  v_next timestamptz;
  v_strays bigint[];
  v_items json;
  v_opened json;
  v_room int := most;
  v_full boolean;
  v_junk bigint[];
  v_not_ours int := 0;
begin
  if exists (select from holdfast.pause) then
    select array_agg(type order by place), array_agg(start order by place)
    into v_types, v_froms
    from unnest(lane_types, lane_froms) with ordinality as lane (type, start, place)
    where not holdfast.is_paused(array['domain:' || domain, 'definition:' || domain || '/' || type, 'handler:' || type]);
    if v_types is null then
      return query select '[]'::json, '[]'::json, null::float8, 0;
      return;
    end if;
  end if;
  for v_round in 1 .. 5 loop
    execute format('select * from %s%I($1, $2, $3, $4, $5, $6, $7, $8)', 'holdfast.', 'take_' || queue)
    into v_ids, v_reads, v_messages, v_headers, v_count, v_last_lane, v_last_vt, v_next, v_full
    using domain, v_types, v_froms, v_now, v_now + lease_ms * interval '1 ms', v_room, spare_leased, ceiling_ms;
    v_junk := null;
    exit when v_ids is null;
    select opened.items, opened.strays, opened.malformed
    into v_opened, v_strays, v_junk
    from holdfast.open_messages(domain, worker, v_now, v_ids, v_reads, v_messages, v_headers) as opened;
    if v_opened is not null and 1 < any (v_reads) then
      v_opened := holdfast.weigh_lost_commands(queue, domain, v_opened);
    end if;
    if v_strays is not null then
      perform pgmq.delete(queue, v_strays);
    end if;
    if v_opened is not null then
      v_items := case when v_items is null then v_opened else (v_items::jsonb || v_opened::jsonb)::json end;
      v_room := v_room - json_array_length(v_opened);
    end if;
    exit when v_junk is null;

    perform pgmq.archive(queue, v_junk);
    v_not_ours := v_not_ours + cardinality(v_junk);
    v_not_ours := v_not_ours + holdfast.clear_junk(queue, domain, v_types, v_now, least(50 * v_not_ours, 10000));
    exit when v_room = 0;
  end loop;

  -- A message without a type is in no lane and cannot be a command. A full scan archives these.
  if not v_full and array_position(lane_froms, null) is not null then
    v_not_ours := v_not_ours + holdfast.clear_typeless(queue, v_now, 10000);
  end if;
  return query select
    coalesce(v_items, '[]'::json),
    -- Lanes before the last one were scanned to their ends, and those after it not at all.
    (
      select json_agg(json_build_object('type', type, 'mark',
        case
          when not v_full or place < v_last_lane then v_newest_mark
          else least(v_newest_mark, floor(extract(epoch from v_last_vt) * 1000))
        end
      ))
      from unnest(v_types) with ordinality as lane (type, place)
      where not v_full or place <= v_last_lane
    ),
    -- More messages are due than fit into the bytes of one claim, or are behind what was archived: claim again at once.
    case when v_room > 0 and (v_full or v_junk is not null) then 0 else extract(epoch from v_next - v_now)::float8 * 1000 end,
    v_not_ours;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.record_dispatch_starts(p_type text, p_batch uuid, started text[], failures jsonb, p_claimed integer)
 RETURNS json
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_config holdfast.dispatch_config;
  v_started int;
  v_unknown int := 0;
  v_dead int := 0;
begin
  select * into v_config from holdfast.dispatch_config where dispatch_config.item_type = p_type;
  update holdfast.dispatch_item
  set status = 'DISPATCHED',
      dispatched_at = v_now,
      updated_at = v_now,
      check_at = greatest(v_now, exec_time) + v_config.stale_claim_threshold_mins * interval '1 minute'
  where item_type = p_type and item_id = any (started) and status = 'CLAIMED' and batch_id = p_batch;
  get diagnostics v_started = row_count;
  if jsonb_array_length(failures) > 0 then
    with unknown as (
      update holdfast.dispatch_item as item
      set check_at = v_now + least(
            v_config.stale_claim_threshold_mins * interval '1 minute',
            greatest(v_config.dispatch_interval_secs, 1) * interval '1 second'
          ),
          last_error = asked.code || ': ' || asked.message,
          updated_at = v_now
      from jsonb_to_recordset(failures) as asked (id text, code text, message text, unknown boolean)
      where item.item_type = p_type
        and item.item_id = asked.id collate "C"
        and item.status = 'CLAIMED'
        and item.batch_id = p_batch
        and asked.unknown
      returning item.item_id, item.execution_id, item.last_error
    ),
    told as (
      insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
      select v_now, 'dispatch', 'START_UNKNOWN', p_type || '/' || item_id, '{"status": "CLAIMED"}', '{"status": "CLAIMED"}',
        jsonb_build_object('batchId', p_batch, 'executionId', execution_id, 'error', last_error)
      from unknown
    )
    select count(*) into v_unknown from unknown;
    v_dead := holdfast.fail_dispatch_items(coalesce((
      select jsonb_agg(it || jsonb_build_object('type', p_type, 'from', 'CLAIMED', 'event', 'START_FAILED'))
      from jsonb_array_elements(failures) as it
      join holdfast.dispatch_item as item
        on item.item_type = p_type and item.item_id = (it ->> 'id') collate "C" and item.batch_id = p_batch
      where not coalesce((it -> 'unknown')::boolean, false)
    ), '[]'));
  end if;
  insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
  values (v_now, 'dispatch', 'BATCH', p_type, '{"status": "READY"}', '{"status": "DISPATCHED"}', jsonb_build_object(
    'batchId', p_batch, 'claimed', p_claimed, 'started', v_started, 'startFailures', p_claimed - v_started - v_unknown,
    'unknown', v_unknown, 'deadLetters', v_dead
  ));
  return json_build_object('started', v_started, 'dead', v_dead, 'tripped', holdfast.note_dispatch_failures(
    v_config, p_claimed - v_started, v_started, (failures -> 0 ->> 'code') || ': ' || (failures -> 0 ->> 'message')
  ));
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.record_operation(p_id uuid, p_generation integer, p_epoch integer, p_kind text, p_seen integer, p_now timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  insert into holdfast.process_history (process_id, generation, seq, epoch, at, kind, name, occurrence, status, seen)
  select p_id, p_generation, coalesce(max(seq), 0) + 1, p_epoch, date_trunc('milliseconds', p_now), p_kind, p_kind, 1,
    'COMPLETED', p_seen
  from holdfast.process_history
  where process_id = p_id and generation = p_generation
  returning seq
$function$
;

CREATE OR REPLACE FUNCTION holdfast.record_replies(p_queue text, writes jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_responses jsonb;
  v_answers jsonb;
begin
  select jsonb_agg(it - 'msg_id' order by place) filter (where it ? 'id')
  into v_responses
  from jsonb_array_elements(writes) with ordinality as asked (it, place);
  if v_responses is not null then
    v_answers := holdfast.respond_processes(v_responses)::jsonb;
  end if;
  -- In the order of the writes again.
  select jsonb_agg(
    case when it ? 'id' then v_answers -> (nth - 1)::int else '["done", 0]' end
    order by place
  )
  into v_answers
  from (
    select it, place, count(*) filter (where it ? 'id') over (order by place) as nth
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
  ) as numbered;
  perform holdfast.remove_replies(p_queue, array(
    select (it ->> 'msg_id')::bigint
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
    where v_answers -> (place - 1)::int ->> 0 in ('done', 'unknown', 'other type')
  ));
  return v_answers;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.record_resolved(p_id uuid, p_generation integer, p_epoch integer, p_name text, p_occurrence integer, options jsonb, p_now timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  insert into holdfast.process_history (
    process_id, generation, seq, epoch, at, kind, name, occurrence, status, result, notes, detail
  )
  select p_id, p_generation, max(seq) + 1, p_epoch, date_trunc('milliseconds', p_now), 'RESOLVE', p_name, p_occurrence,
    'COMPLETED', options -> 'result', nullif(options -> 'notes', 'null'),
    jsonb_strip_nulls(jsonb_build_object('resolved', options ->> 'outcome', 'nothing', options -> 'nothing'))
  from holdfast.process_history
  where process_id = p_id and generation = p_generation
  returning seq
$function$
;

CREATE OR REPLACE FUNCTION holdfast.refuse_audit_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  raise exception 'the audit trail is append-only' using errcode = 'restrict_violation';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.refuse_late_processes(config holdfast.dispatch_config, ids uuid[])
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_tolerance interval := holdfast.dispatch_tolerance(config);
  v_cycle holdfast.dispatch_cycle;
  v_late uuid[];
  v_starts timestamptz[];
begin
  if v_tolerance is null then
    return '{}';
  end if;
  v_late := array(
    select id from holdfast.process_detail where id = any (ids) and start_at < v_now - v_tolerance order by start_at, id
  );
  if v_late = '{}' then
    return v_late;
  end if;
  -- All late executions, not only these: otherwise each claim would find the next late one, and nothing would begin.
  select * into v_cycle from holdfast.dispatch_cycle where item_type = config.item_type;
  v_late := array(
    select process.id
    from holdfast.process
    join holdfast.process_detail as detail on detail.id = process.id
    where process.status = 'PENDING'
      and process.type = any (v_cycle.exec_types)
      and process.created_at >= coalesce(v_cycle.ahead_since, '-infinity')
      and process.leased_at is null
      and process.lease_epoch = process.unbegun_epoch
      and process.dispatch_type = config.item_type
      and process.cancel is null
      and (process.due_at is not null or process.queued_at is not null)
      and detail.start_at < v_now - v_tolerance
    order by detail.start_at, process.id
    limit 2000
    for no key update of process skip locked
  ) || v_late;
  v_late := array(select id from unnest(v_late) with ordinality as late (id, place) group by id order by min(place));
  v_starts := holdfast.new_dispatch_starts(config, cardinality(v_late));
  if v_starts is null then
    return array(select id from unnest(v_late) as id where id = any (ids));
  end if;
  update holdfast.process_detail as detail
  set start_at = renewed.start_at, updated_at = v_now
  from unnest(v_late, v_starts) as renewed (id, start_at)
  where detail.id = renewed.id and renewed.id = renewed.id;
  update holdfast.process
  set due_at = renewed.start_at, queued_at = null
  from unnest(v_late, v_starts) as renewed (id, start_at)
  where process.id = renewed.id and renewed.id = renewed.id;
  return array(
    select renewed.id from unnest(v_late, v_starts) as renewed (id, start_at) where renewed.start_at > v_now and renewed.id = any (ids)
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.refuse_name(p_what text, p_domain text, p_type text, p_known_by text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  raise exception 'HF_NOT_FOUND: there is no % %', p_what, coalesce(holdfast.full_name(p_domain, p_type), 'null')
    using errcode = 'invalid_parameter_value',
      hint = format('Check domain and type: they are known once %s has started.', p_known_by);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.refuse_option(p_function text, p_name text, p_problem text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  raise exception 'HF_INVALID_OPTION: %: `%` %', p_function, p_name, p_problem using errcode = 'invalid_parameter_value';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.release_chores(ids text[], epochs integer[], OUT ended integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_lanes text[];
        v_lane text;
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, epochs) as asked (name, epoch) order by name) as asked
          cross join lateral (
            select
            from holdfast.chore as it
            where it.name = asked.name and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        beside as (select),
        changed as (
          update holdfast.chore as it
          set due_at = holdfast.now(), leased_by = null, leased_at = null
          from free
          where it.name = free.name and free.epoch = free.epoch + 0
          returning it.name as lane
        )
        select array_agg(distinct lane), count(*) into v_lanes, ended from changed;
        foreach v_lane in array coalesce(v_lanes, '{}') loop
          null;
        end loop;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.release_commands(p_queue text, ids bigint[], reads integer[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  execute format(
    $query$
    with free as (
      select q.msg_id
      from (select * from unnest($1, $2) as asked (msg_id, read_ct) order by msg_id) as asked,
      lateral (
        select msg_id from pgmq.%1$I as q
        where q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
        for update skip locked
      ) q
    )
    update pgmq.%1$I set vt = $3, read_ct = read_ct - 1
    where msg_id = any (array(select msg_id from free))
    $query$, 'q_' || p_queue
  ) using ids, reads, holdfast.now();
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.release_dispatch_cycles(ids text[], epochs integer[], OUT ended integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_lanes text[];
        v_lane text;
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, epochs) as asked (item_type, epoch) order by item_type) as asked
          cross join lateral (
            select
            from holdfast.dispatch_cycle as it
            where it.item_type = asked.item_type and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        beside as (select),
        changed as (
          update holdfast.dispatch_cycle as it
          set due_at = holdfast.now(), leased_by = null, leased_at = null
          from free
          where it.item_type = free.item_type and free.epoch = free.epoch + 0
          returning it.item_type as lane
        )
        select array_agg(distinct lane), count(*) into v_lanes, ended from changed;
        foreach v_lane in array coalesce(v_lanes, '{}') loop
          null;
        end loop;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.release_dispatch_items(request jsonb, from_due timestamp with time zone, from_seq bigint, slots double precision[])
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_type text := request ->> 'type';
  v_config holdfast.dispatch_config;
  v_most int;
  v_room int;
  v_ids text[];
  v_last_due timestamptz;
  v_last_seq bigint;
  v_bad jsonb;
  v_existing uuid[];
  v_dead int := 0;
  v_failed int;
  v_ahead int;
  v_tripped text;
begin
  if not holdfast.hold_dispatch_cycle(v_type, (request ->> 'epoch')::int) then
    return '{"outcome": "lost"}';
  end if;
  -- The kill switch waits for this transaction, and then sees the executions that it created.
  select * into v_config from holdfast.dispatch_config where item_type = v_type for share;
  if not found or not v_config.enabled or holdfast.is_dispatch_paused(v_type) then
    return '{"outcome": "off"}';
  end if;
  -- The database may have been restored to an earlier state since the caller stored its workflow.
  if v_config.engine = 'WORKFLOW' and not exists (
    select from holdfast.workflow_definition
    where id = (request ->> 'definitionId')::int and name = request ->> 'execType' and version = (request ->> 'version')::int
  ) then
    return '{"outcome": "unknown definition"}';
  end if;
  v_most := least((request ->> 'most')::int, cardinality(slots));
  v_room := least(v_config.max_batches_ahead::bigint * v_config.batch_size, 2147483647);
  if v_room is not null or v_config.trip_after is not null then
    v_ahead := holdfast.count_dispatched_ahead(v_type, greatest(v_room, v_config.trip_after));
    v_most := least(v_most, v_room - v_ahead);
    if v_ahead >= v_config.trip_after
      and not holdfast.has_dispatch_worker(v_config.engine, request ->> 'execType')
      and (select ahead_since < v_now - interval '2 minutes' from holdfast.dispatch_cycle where item_type = v_type)
    then
      v_tripped := holdfast.note_dispatch_failures(
        v_config, v_ahead, 0, v_ahead || ' executions of ' || (request ->> 'execType') || ' wait, and no worker has that definition'
      );
      return json_build_object('outcome', 'off', 'tripped', v_tripped);
    end if;
  end if;
  if v_most <= 0
    -- Executions that were late have got the starts of the next batches.
    or slots is null and exists (select from holdfast.dispatch_pace where dispatch_pace.item_type = v_type and until > v_now)
  then
    return json_build_object('outcome', 'ahead', 'claimed', 0);
  end if;

  -- Slots begin now: with a rate limit no item is claimed before its time.
  select * into v_ids, v_last_due, v_last_seq
  from holdfast.lock_due_items(
    v_type, from_due, from_seq, v_now + case when slots is null then v_config.pre_start_buffer_mins else 0 end * interval '1 minute', v_most
  );
  if v_ids is null then
    return json_build_object('outcome', 'released', 'claimed', 0, 'started', 0, 'failed', 0, 'dead', 0, 'full', false);
  end if;

  perform holdfast.note_exec_type(v_type, request ->> 'execType');
  begin
    select found.bad, found.existing
    into v_bad, v_existing
    from holdfast.start_dispatched(request, v_config, v_ids, slots, v_now, null) as found;
  exception when unique_violation then
    -- Searched only after a conflict: a search before every insert costs more than all inserts together.
    select found.bad, found.existing
    into v_bad, v_existing
    from holdfast.start_dispatched(
      request, v_config, v_ids, slots, v_now, holdfast.taken_executions(v_config, v_ids, request ->> 'execType')
    ) as found;
  end;
  if v_bad is not null then
    v_dead := holdfast.fail_dispatch_items(v_bad);
  end if;
  if v_existing is not null then
    -- These executions exist, although their items were set back by hand. If they have ended, their items end now.
    if v_config.engine = 'WORKFLOW' then
      perform holdfast.end_dispatched_workflows(v_existing);
    else
      perform holdfast.end_dispatched_processes(v_existing);
    end if;
  end if;
  v_failed := coalesce(jsonb_array_length(v_bad), 0);
  v_tripped := holdfast.note_dispatch_failures(
    v_config, v_failed, cardinality(v_ids) - v_failed, (v_bad -> 0 ->> 'code') || ': ' || (v_bad -> 0 ->> 'message')
  );
  perform holdfast.wake(case v_config.engine when 'WORKFLOW' then 'workflows:_root_' else 'processes:' || (request ->> 'execType') end);
  insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
  values (v_now, 'dispatch', 'BATCH', v_type, '{"status": "READY"}', '{"status": "DISPATCHED"}', jsonb_build_object(
    'batchId', request ->> 'batch', 'claimed', cardinality(v_ids), 'started', cardinality(v_ids) - v_failed,
    'startFailures', v_failed, 'deadLetters', v_dead
  ));
  return json_build_object(
    'outcome', 'released', 'claimed', cardinality(v_ids), 'started', cardinality(v_ids) - v_failed, 'failed', v_failed,
    'full', cardinality(v_ids) = v_most, 'lastDue', v_last_due::text, 'lastSeq', v_last_seq::text, 'tripped', v_tripped
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.release_inbox(ids uuid[], epochs integer[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_head uuid;
  v_epoch int;
begin
  for v_head, v_epoch in
    select it.id, asked.epoch
    from (select * from unnest(ids, epochs) as asked (id, epoch) order by id) as asked
    cross join lateral (
      select id
      from holdfast.process_inbox
      where id = asked.id and lease_epoch = asked.epoch and leased_at is not null
      for update skip locked
    ) as it
  loop
    perform holdfast.finish_inbox_group(v_head, v_epoch, '{}', '[]', 0);
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.release_processes(ids uuid[], epochs integer[], OUT ended integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
      declare
        v_lanes text[];
        v_lane text;
      begin
        with free as materialized (
          select asked.*
          from (select * from unnest(ids, epochs) as asked (id, epoch) order by id) as asked
          cross join lateral (
            select
            from holdfast.process as it
            where it.id = asked.id and it.lease_epoch = asked.epoch and (it.leased_at is not null)
            for no key update skip locked
          ) as locked
        ),
        beside as (delete from holdfast.process_slot where process_id in (select free.id from free)),
        changed as (
          update holdfast.process as it
          set due_at = holdfast.now(), leased_by = null, leased_at = null, rested_epoch = rested_epoch + 1, unbegun_epoch = case when unbegun_epoch = lease_epoch - 1 then lease_epoch end
          from free
          where it.id = free.id and free.epoch = free.epoch + 0
          returning it.type as lane
        )
        select array_agg(distinct lane), count(*) into v_lanes, ended from changed;
        foreach v_lane in array coalesce(v_lanes, '{}') loop
          perform holdfast.wake('processes:' || v_lane);
        end loop;
      end
      $function$
;

CREATE OR REPLACE FUNCTION holdfast.remove_idle_buckets()
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_removed int;
begin
  delete from holdfast.rate_limit_bucket
  where resource_key = any (array(
    select resource_key
    from holdfast.rate_limit_bucket
    where full_at <= v_now and written_at <= v_now - interval '1 hour'
    for update skip locked
  ));
  get diagnostics v_removed = row_count;
  return v_removed;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.remove_replies(p_queue text, ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  execute format(
    $query$
    delete from pgmq.%1$I
    where msg_id = any (array(
      select msg_id from pgmq.%1$I where msg_id = any ($1) order by msg_id for update skip locked
    ))
    $query$, 'q_' || p_queue
  ) using ids;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.replies_are_lost(p_queue text, p_messages jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_lost boolean;
begin
  execute format(
    $query$
    select exists (
      select
      from jsonb_to_recordset($1) as asked (msg_id bigint, read_ct int)
      left join pgmq.%I as q on q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
      where q.msg_id is null
    )
    $query$, 'q_' || p_queue
  ) into v_lost using p_messages;
  return v_lost;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.report_dispatch_ends(p_type text, ends jsonb)
 RETURNS TABLE("executionId" text, outcome text)
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_open jsonb;
begin
  select jsonb_agg(jsonb_build_object(
    'id', item.item_id, 'execution', item.execution_id, 'found', asked.found, 'code', asked.code, 'message', asked.message
  ) order by item.item_id)
  into v_open
  from (
    select item.item_id, item.execution_id
    from jsonb_to_recordset(ends) as asked (execution text)
    join holdfast.dispatch_item as item
      on item.item_type = p_type and item.item_id = holdfast.item_of_execution(p_type, asked.execution) collate "C"
    where item.execution_id = asked.execution and item.status in ('CLAIMED', 'DISPATCHED')
    order by item.item_id
    for no key update of item
  ) as item
  join jsonb_to_recordset(ends) as asked (execution text, found text, code text, message text)
    on asked.execution = item.execution_id;
  if v_open is not null then
    perform holdfast.apply_dispatch_checks(p_type, v_open);
  end if;
  return query
  select asked.execution, case
      when exists (select from jsonb_array_elements(v_open) as it where it ->> 'execution' = asked.execution) then 'done'
      when item.item_id is null or item.execution_id is null then 'unknown'
      else 'ended'
    end
  from (
    select it ->> 'execution' as execution, place from jsonb_array_elements(ends) with ordinality as each (it, place)
  ) as asked
  left join holdfast.dispatch_item as item
    on item.item_type = p_type and item.item_id = holdfast.item_of_execution(p_type, asked.execution) collate "C"
  order by asked.place;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.report_end(item_type text, execution_id text, status text, error_code text DEFAULT NULL::text, error_message text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if status not in ('COMPLETED', 'FAILED', 'CANCELLED') or status is null then
    raise exception 'an execution ends COMPLETED, FAILED or CANCELLED, not %', coalesce(status, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  return (
    select outcome
    from holdfast.report_dispatch_ends(item_type, jsonb_build_array(jsonb_build_object(
      'execution', execution_id,
      'found', case status when 'FAILED' then 'RETRY' when 'CANCELLED' then 'FAILED' else status end,
      'code', coalesce(left(error_code, 200), status),
      'message', coalesce(left(error_message, 10000), 'the execution ended ' || status)
    )))
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.reserve_slots(keys text[], counts integer[], max_waits_ms double precision[], patient boolean)
 RETURNS TABLE(run integer, outcome text, granted integer, first_us double precision, step_us double precision, at_us double precision)
 LANGUAGE plpgsql
 SET lock_timeout TO '100ms'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_key text;
  v_runs int[];
  v_bucket holdfast.rate_limit_bucket;
  v_rate float8;
  v_burst int;
  v_now timestamptz;
  v_lead float8;
  v_taken bigint;
  v_shift interval;
  v_seed bigint;
begin
  -- Before anything is locked, because all others wait for what is done under the lock of a hot bucket.
  select holdfast.now() - statement_timestamp(), clock.tableoid::bigint
  into v_shift, v_seed
  from holdfast.clock;
  for v_key, v_runs in
    select asked.key, array_agg(asked.place::int order by asked.place)
    from unnest(keys) with ordinality as asked (key, place)
    group by asked.key
    order by asked.key collate "C"
  loop
    outcome := 'reserved';
    if patient then
      perform pg_advisory_xact_lock(hashtextextended('holdfast bucket ' || v_key, v_seed));
    end if;
    loop
      if patient then
        select * into v_bucket from holdfast.rate_limit_bucket where resource_key = v_key for no key update;
      else
        select * into v_bucket from holdfast.rate_limit_bucket where resource_key = v_key for no key update skip locked;
      end if;
      exit when found;
      if not patient and exists (select from holdfast.rate_limit_bucket where resource_key = v_key) then
        outcome := 'held';
        exit;
      end if;
      perform holdfast.make_bucket(v_key);
      if not exists (select from holdfast.rate_limit where resource_key = v_key) then
        outcome := 'unknown';
        exit;
      end if;
    end loop;
    -- Read after the lock was taken, so that a transaction that waited never undoes a change of the configuration.
    select rate_limit.tickets_per_second, holdfast.effective_burst(rate_limit.tickets_per_second, rate_limit.burst)
    into v_rate, v_burst
    from holdfast.rate_limit
    where resource_key = v_key;
    if not found then
      outcome := 'unknown';
    end if;
    if outcome <> 'reserved' then
      granted := 0;
      foreach run in array v_runs loop
        return next;
      end loop;
      continue;
    end if;

    -- The one clock, read after the lock was taken: slots that passed during the wait are not granted.
    v_now := clock_timestamp() + v_shift;
    v_lead := holdfast.bucket_lead(v_bucket, v_rate, v_burst, v_now);
    v_taken := 0;
    step_us := 1e6 / v_rate;
    at_us := extract(epoch from v_now) * 1e6;
    foreach run in array v_runs loop
      first_us := v_lead - (v_burst - 1) * step_us;
      -- A billionth of a slot against rounding errors of the division: three steps by one step must not be 2.9999999999999996.
      granted := least(counts[run], greatest(0, floor((max_waits_ms[run] * 1000 - first_us) / step_us + 1e-9) + 1));
      v_lead := v_lead + granted * step_us;
      v_taken := v_taken + granted;
      return next;
    end loop;
    -- A refused request writes nothing, unless the clock was set back or the configuration has changed.
    if v_taken > 0
      or v_bucket.tickets_per_second <> v_rate
      or v_bucket.burst <> v_burst
      or v_bucket.written_at - v_now > interval '1 second'
    then
      update holdfast.rate_limit_bucket
      -- Rounded up: a slot that is a little later is within the bound.
      set full_at = v_now + ceil(v_lead) * interval '1 microsecond',
          written_at = v_now,
          tickets_per_second = v_rate,
          burst = v_burst
      where resource_key = v_key;
    end if;
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.resolve_process(p_id uuid, p_actor text, p_reason text, options jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
  v_deadline timestamptz;
  v_name text;
  v_occurrence int;
  v_seq int;
  v_outcome text;
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.status <> 'WAITING_FOR_TSQ' then
    return case when v_row.leased_at is null then v_row.status else 'EXECUTING' end;
  end if;
  if holdfast.process_is_unwinding(p_id, v_row.generation) then
    if options ->> 'outcome' = 'notDone' then
      return 'nothing';
    end if;
    v_outcome := holdfast.complete_compensations(p_id, options ->> 'step', options, options ->> 'outcome', p_actor, p_reason);
    return case
      when v_outcome <> 'no failed compensation' then v_outcome
      when options ->> 'outcome' = 'skipped' then 'not skippable'
      else 'nothing'
    end;
  end if;
  if options ->> 'outcome' = 'skipped' then
    select name, occurrence into v_name, v_occurrence from holdfast.failed_step(p_id, v_row.generation);
    if v_name is null then
      return 'not skippable';
    end if;
  else
    select name, occurrence into v_name, v_occurrence
    from holdfast.unresolved_calls(p_id, v_row.generation)
    where holdfast.call_id(name, occurrence) = options ->> 'step';
    if v_name is null then
      return 'nothing';
    end if;
  end if;
  v_deadline := coalesce(
    to_timestamp((options ->> 'deadline_ms')::float8 / 1000),
    v_now + (options ->> 'deadline_in_ms')::float8 * interval '1 ms',
    v_row.deadline_at
  );
  if v_deadline <= v_now then
    return 'deadline';
  end if;
  v_seq := holdfast.record_resolved(p_id, v_row.generation, v_row.lease_epoch + 1, v_name, v_occurrence, options, v_now);
  update holdfast.process
  set status = 'PENDING',
      due_at = v_now,
      lease_epoch = lease_epoch + 1,
      rested_epoch = rested_epoch + 1,
      deadline_at = v_deadline,
      mismatch_since = null
  where id = p_id;
  perform holdfast.process_goes_on(p_id, v_now);
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, after, detail)
  values (v_now, 'processes', 'TSQ_RESOLVE', p_id, p_actor, p_reason, v_before,
    jsonb_strip_nulls(jsonb_build_object(
      'status', 'PENDING', 'step', options ->> 'step', 'outcome', options ->> 'outcome', 'result', options -> 'result'
    )),
    jsonb_build_object('generation', v_row.generation, 'seq', v_seq));
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.respond(domain text, type text, process text, name text, data jsonb, options jsonb DEFAULT '{}'::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.respond_processes(responses jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_asked uuid[];
  v_mine uuid[];
  v_type text;
  v_live boolean;
  v_done int;
  v_behind uuid[];
begin
  -- In the order of ids, each once: several responses may be for one process.
  v_asked := array(select distinct (it ->> 'id')::uuid from jsonb_array_elements(responses) as it order by 1);
  select array_agg(locked.id)
  into v_mine
  from unnest(v_asked) as asked (id)
  cross join lateral (
    select process.id
    from holdfast.process
    where process.id = asked.id and process.status not in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED')
    for no key update skip locked
  ) as locked;

  v_behind := array(
    select asked.id
    from jsonb_to_recordset(responses) as asked (id uuid, type text, direct boolean)
    join holdfast.process_detail as detail on detail.id = asked.id
    where asked.direct
      and exists (
        select from holdfast.process_inbox as earlier
        where earlier.type = asked.type
          and earlier.process_ref = any (array[asked.id::text, detail.key])
          and earlier.name not like '@%'
      )
  );
  with asked as (
    select *
    from rows from (
      jsonb_to_recordset(responses) as (
        id uuid, type text, name text, response_id text, data jsonb, notes jsonb, direct boolean
      )
    ) with ordinality as asked (id, type, name, response_id, data, notes, direct, place)
  ),
  -- The same response may come twice in one call.
  once as (
    select distinct on (asked.id, asked.response_id) asked.*
    from asked
    order by asked.id, asked.response_id, asked.place
  ),
  new as (
    select asked.*, process.responses + row_number() over (partition by asked.id order by asked.place) as number
    from once as asked
    join holdfast.process on process.id = asked.id and process.type = asked.type
    where asked.id = any (v_mine)
      and not (asked.direct is true and asked.id = any (v_behind))
      and not exists (
        select from holdfast.process_response as earlier
        where earlier.process_id = asked.id and earlier.response_id = asked.response_id
      )
  ),
  recorded as (
    insert into holdfast.process_response (process_id, number, name, response_id, at, data, notes)
    select id, number, name, response_id, v_now, data, notes from new
    returning process_id
  ),
  moved as (
    update holdfast.process
    set responses = process.responses + counted.count,
        due_at = case
          when leased_at is not null or queued_at is not null then due_at
          when status = 'WAITING_FOR_ASYNC' then least(due_at, v_now)
          -- It waits for this before it compensates.
          when status = 'COMPENSATING' and due_at is null then v_now
          else due_at
        end
    from (select process_id, count(*)::int as count from recorded group by process_id) as counted
    where process.id = counted.process_id
    returning process.type, leased_at is not null as live, counted.count
  )
  select sum(count), bool_or(live) into v_done, v_live from moved;
  if v_done > 0 then
    for v_type in select distinct it ->> 'type' from jsonb_array_elements(responses) as it loop
      perform holdfast.wake('processes:' || v_type);
    end loop;
    if v_live then
      perform holdfast.wake('processes:live');
    end if;
  end if;
  return (
    select json_agg(
      case
        when process.id is null then json_build_array('unknown')
        when process.type <> asked.type then json_build_array('other type', process.type)
        when recorded.number is not null then json_build_array('done', recorded.number)
        when asked.direct and asked.id = any (v_behind) then json_build_array('behind')
        when process.status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED') then json_build_array(
          'late', process.responses,
          -- A process that ended without ever suspending has no projection but its initial state.
          case when detail.projection_responses is null then detail.state else detail.projection end,
          case when detail.projection_responses is null then detail.state_notes else detail.projection_notes end,
          (
            select json_agg(json_build_array(number, name, data, notes) order by number)
            from holdfast.process_response
            where process_id = asked.id and number > coalesce(detail.projection_responses, detail.state_responses)
          )
        )
        else json_build_array('held')
      end
      order by asked.place
    )
    from rows from (
      jsonb_to_recordset(responses) as (id uuid, type text, response_id text, direct boolean)
    ) with ordinality as asked (id, type, response_id, direct, place)
    left join holdfast.process on process.id = asked.id
    left join holdfast.process_detail as detail on detail.id = asked.id
    left join holdfast.process_response as recorded
      on recorded.process_id = asked.id and recorded.response_id = asked.response_id
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.rest_processes(writes jsonb, v_now timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_type text;
  v_parents boolean;
  v_batches boolean;
  v_items boolean;
  v_ended uuid[];
begin
  update holdfast.process
  set status = asked.to_status,
      due_at = to_timestamp(asked.due_ms / 1000),
      lease_epoch = lease_epoch + 1,
      -- Given if the execution did not replay the whole history: what is known of an earlier interruption is kept (K-19).
      rested_epoch = coalesce(asked.rested, lease_epoch + 1),
      leased_by = null,
      leased_at = null,
      last_write = asked.token,
      generation = process.generation + case when asked.continues then 1 else 0 end,
      cancel = case when asked.ended then null else cancel end,
      mismatch_since = case when asked.mismatch then coalesce(mismatch_since, v_now) end
  from jsonb_to_recordset(writes) as asked (
    id uuid, epoch int, token uuid, to_status text, due_ms float8, continues boolean, ended boolean, mismatch boolean,
    rested int
  )
  where process.id = asked.id and asked.to_status is not null and asked.epoch = asked.epoch + 0;

  with rested as (
    update holdfast.process_detail
    set updated_at = v_now,
        ended_at = case when asked.ended then v_now end,
        undone = asked.undone,
        start_at = case when asked.continues then v_now else start_at end,
        state = case when asked.continues then asked.projection else state end,
        state_notes = case when asked.continues then asked.projection_notes else state_notes end,
        state_responses = case when asked.continues then asked.seen else state_responses end,
        state_unmet = case when asked.continues then asked.unmet else state_unmet end,
        state_events = case when asked.continues then asked.asked_events else state_events end,
        projection = case when asked.has_projection then asked.projection else process_detail.projection end,
        projection_notes = case when asked.has_projection then asked.projection_notes else process_detail.projection_notes end,
        projection_responses = case when asked.has_projection then asked.seen else projection_responses end,
        result = asked.result,
        result_notes = asked.result_notes,
        waiting_for = asked.waiting_for,
        wait_timeout_at = to_timestamp(asked.wait_timeout_ms / 1000),
        next_retry_at = to_timestamp(asked.next_retry_ms / 1000),
        error_kind = asked.error ->> 'kind',
        error_code = asked.error ->> 'code',
        error_message = asked.error ->> 'message'
    from jsonb_to_recordset(writes) as asked (
      id uuid, epoch int, to_status text, continues boolean, ended boolean, has_projection boolean, projection jsonb,
      undone boolean, projection_notes jsonb, seen int, unmet jsonb, asked_events jsonb, result jsonb, result_notes jsonb,
      waiting_for text, wait_timeout_ms float8,
      next_retry_ms float8, error jsonb
    )
    where process_detail.id = asked.id and asked.to_status is not null and asked.epoch = asked.epoch + 0
    returning process_detail.parent_id, process_detail.batch_id, process_detail.dispatch_item
  )
  select bool_or(parent_id is not null), bool_or(batch_id is not null), bool_or(dispatch_item is not null)
  into v_parents, v_batches, v_items
  from rested;

  if writes @> '[{"to_status": "WAITING_FOR_TSQ"}]' then
    insert into holdfast.process_trouble (
      id, type, since, step, error_kind, error_code, error_message, error_stack, fingerprint, batch_id
    )
    select asked.id, detail.type, v_now,
      -- What it waits for, or the last failure.
      coalesce(asked.waiting_for, (
        select history.name || case when history.occurrence > 1 then '#' || history.occurrence else '' end
        from holdfast.process_history as history
        where history.process_id = asked.id and history.generation = process.generation and history.status = 'FAILED'
        order by history.seq desc
        limit 1
      )),
      -- Under the code of what user code threw, so that the same failure has the same code in all models.
      asked.error ->> 'kind', coalesce(asked.error -> 'cause', asked.error) ->> 'code',
      coalesce(asked.error -> 'cause', asked.error) ->> 'message', asked.error ->> 'stack', asked.error ->> 'fingerprint', detail.batch_id
    from jsonb_to_recordset(writes) as asked (id uuid, to_status text, waiting_for text, error jsonb)
    join holdfast.process on process.id = asked.id
    join holdfast.process_detail as detail on detail.id = asked.id
    where asked.to_status = 'WAITING_FOR_TSQ'
    on conflict (id) do update
    set since = excluded.since, step = excluded.step, error_kind = excluded.error_kind, error_code = excluded.error_code,
        error_message = excluded.error_message, error_stack = excluded.error_stack, fingerprint = excluded.fingerprint;
  end if;
  if writes @> '[{"error": {"code": "DEADLINE_EXCEEDED"}}]' then
    -- A deadline that ends the process or needs an operator has no event in the history. One that compensates has.
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'processes', 'DEADLINE_EXCEEDED', asked.id, jsonb_build_object('status', asked.to_status)
    from jsonb_to_recordset(writes) as asked (id uuid, to_status text, error jsonb)
    where asked.error ->> 'code' = 'DEADLINE_EXCEEDED' and asked.to_status in ('WAITING_FOR_TSQ', 'FAILED');
  end if;
  if v_parents or v_batches or v_items then
    v_ended := array(
      select asked.id
      from jsonb_to_recordset(writes) as asked (id uuid, to_status text, ended boolean)
      where asked.to_status is not null and asked.ended
    );
    if v_parents or v_batches then
      perform holdfast.processes_ended(v_ended);
    end if;
    if v_items then
      perform holdfast.end_dispatched_processes(v_ended);
    end if;
  end if;
  if writes @> '[{"ended": true}]' or writes @> '[{"to_status": "WAITING_FOR_TSQ"}]' then
    perform holdfast.wake_results('processes');
  end if;
  if writes @> '[{"limited": true}]' then
    delete from holdfast.process_slot
    using jsonb_to_recordset(writes) as asked (id uuid, epoch int, to_status text, limited boolean)
    where process_slot.process_id = asked.id and asked.limited and asked.to_status is not null;
  end if;
  -- A continued process is due at once, a freed slot is for another process, and a process that its caller suspended is due at a time
  -- that no worker knows of.
  for v_type in
    select distinct process.type
    from jsonb_to_recordset(writes) as asked (id uuid, to_status text, continues boolean, limited boolean, wakes boolean)
    join holdfast.process on process.id = asked.id
    where asked.to_status is not null and (asked.continues or asked.limited or asked.wakes)
  loop
    perform holdfast.wake('processes:' || v_type);
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.resume_dispatch(p_type text, p_actor text, p_reason text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_before holdfast.dispatch_cycle;
begin
  if not holdfast.configure_dispatch(p_type, '{"enabled": true}', p_actor, p_reason) then
    return false;
  end if;
  select * into v_before from holdfast.dispatch_cycle where item_type = p_type for no key update;
  if v_before.tripped_at is not null or v_before.failures_in_row > 0 then
    update holdfast.dispatch_cycle
    set tripped_at = null, trip_reason = null, failures_in_row = 0,
        due_at = case when leased_at is null then v_now else due_at end
    where item_type = p_type;
  end if;
  if v_before.tripped_at is not null then
    insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
    values (v_now, 'dispatch', 'RESUMED', p_type, p_actor, p_reason,
      jsonb_build_object('tripped', true, 'reason', v_before.trip_reason), '{"tripped": false}');
    perform holdfast.wake('dispatch');
  end if;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.resume_process(p_id uuid, p_actor text, p_reason text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
  v_seq int;
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.leased_at is not null then
    return 'EXECUTING';
  end if;
  if v_row.status not in ('PENDING', 'WAITING_FOR_ASYNC', 'WAITING_FOR_RETRY', 'COMPENSATING') then
    return v_row.status;
  end if;
  if v_row.status in ('WAITING_FOR_RETRY', 'COMPENSATING') then
    v_seq := holdfast.record_operation(p_id, v_row.generation, v_row.lease_epoch + 1, 'RESUME', null, v_now);
  end if;
  update holdfast.process
  set due_at = case when queued_at is null then v_now end,
      lease_epoch = lease_epoch + 1,
      rested_epoch = rested_epoch + 1
  where id = p_id;
  -- A process that was to start later starts now, and its clock with it.
  update holdfast.process_detail set updated_at = v_now, start_at = least(start_at, v_now) where id = p_id;
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, detail)
  values (v_now, 'processes', 'OPERATOR_RESUME', p_id, p_actor, p_reason, v_before,
    case when v_seq is not null then jsonb_build_object('generation', v_row.generation, 'seq', v_seq) end);
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.retry_process(p_id uuid, p_actor text, p_reason text, options jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
  v_unwinding boolean;
  v_deadline timestamptz;
  v_response jsonb := options -> 'response';
  v_number int;
  v_seq int;
  v_status text;
  v_unresolved text;
  v_awaited text;
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.status <> 'WAITING_FOR_TSQ' then
    return case when v_row.leased_at is null then v_row.status else 'EXECUTING' end;
  end if;
  v_awaited := holdfast.troubled_command(p_id, v_row.generation);
  if v_awaited is not null then
    return 'waits for ' || v_awaited;
  end if;
  v_unwinding := holdfast.process_is_unwinding(p_id, v_row.generation);
  if not v_unwinding and not coalesce((options -> 'not_done')::boolean, false) then
    select holdfast.call_id(name, occurrence) into v_unresolved
    from holdfast.unresolved_calls(p_id, v_row.generation)
    where no_inquire
    order by 1
    limit 1;
    if v_unresolved is not null then
      return 'unresolved ' || v_unresolved;
    end if;
  end if;
  v_status := case when v_unwinding then 'COMPENSATING' else 'PENDING' end;
  v_deadline := coalesce(
    to_timestamp((options ->> 'deadline_ms')::float8 / 1000),
    v_now + (options ->> 'deadline_in_ms')::float8 * interval '1 ms',
    v_row.deadline_at
  );
  if v_deadline <= v_now and not v_unwinding then
    return 'deadline';
  end if;
  if v_response is not null then
    v_number := v_row.responses + 1;
    insert into holdfast.process_response (process_id, number, name, response_id, at, data, notes)
    values (p_id, v_number, v_response ->> 'name', gen_random_uuid()::text, v_now, v_response -> 'data',
      nullif(v_response -> 'notes', 'null'));
  end if;
  if not v_unwinding and (options -> 'not_done')::boolean then
    perform holdfast.record_resolved(p_id, v_row.generation, v_row.lease_epoch + 1, name, occurrence, '{"outcome": "notDone"}', v_now)
    from (select name, occurrence from holdfast.unresolved_calls(p_id, v_row.generation) order by name, occurrence) as unresolved;
  end if;
  v_seq := holdfast.record_operation(p_id, v_row.generation, v_row.lease_epoch + 1, 'RETRY', v_number, v_now);
  update holdfast.process
  set status = v_status,
      due_at = v_now,
      lease_epoch = lease_epoch + 1,
      rested_epoch = rested_epoch + 1,
      responses = coalesce(v_number, responses),
      deadline_at = v_deadline,
      mismatch_since = null
  where id = p_id;
  perform holdfast.process_goes_on(p_id, v_now);
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, after, detail)
  values (v_now, 'processes', 'TSQ_RETRY', p_id, p_actor, p_reason, v_before,
    jsonb_strip_nulls(jsonb_build_object(
      'status', v_status, 'response', v_response ->> 'name', 'notDone', options -> 'not_done',
      'deadline', case when v_deadline is distinct from v_row.deadline_at then v_deadline end
    )),
    jsonb_build_object('generation', v_row.generation, 'seq', v_seq));
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.retry_workflow_step(p_id uuid, p_step text, p_actor text, p_reason text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_handler text;
begin
  with due as (
    update holdfast.workflow_step
    -- It has waited since now. With the time of its retry it would come after everything that is due.
    set due_at = v_now, ready = true, scheduled_at = v_now, rank = holdfast.workflow_rank(v_now, priority, aging)
    -- One that is due at infinity is paused and does not wait for its next attempt: this call would change nothing of that.
    where workflow_id = p_id and name = p_step and handler is not null and not ready and leased_at is null
      and due_at < 'infinity'
    returning *
  ),
  noted as (
    insert into holdfast.audit (at, model, event, subject_id, actor, reason, detail)
    select v_now, 'workflows', 'step_retry', workflow_id, p_actor, p_reason,
      jsonb_build_object('step', name, 'status', status, 'attempts', attempts, 'now', true)
    from due
  )
  select handler into v_handler from due;
  if v_handler is null then
    return false;
  end if;
  perform holdfast.wake('workflows:' || v_handler);
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.return_reply(p_queue text, p_msg_id bigint, p_read_ct integer, p_delay_ms double precision)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  execute format(
    'update pgmq.%I set vt = $3, read_ct = read_ct - 1 where msg_id = $1 and read_ct = $2', 'q_' || p_queue
  ) using p_msg_id, p_read_ct, holdfast.now() + p_delay_ms * interval '1 ms';
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.schedule(domain text, type text, key text, context jsonb, start_at timestamp with time zone, options jsonb DEFAULT '{}'::jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.schedule_items(request jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_type text := request ->> 'type';
  v_items jsonb := request -> 'items';
  v_version int := (request ->> 'version')::int;
  v_checked boolean := (request ->> 'checked')::boolean;
  v_created int;
  v_new text[];
begin
  if not exists (select from holdfast.dispatch_config where item_type = v_type) then
    -- The caller has registered the type before, so the database was restored to an earlier state: the caller registers it again.
    if (request ->> 'noted')::boolean then
      return '{"created": 0, "unknown": true}';
    end if;
    raise exception 'unknown item type %: define it, or insert its row into dispatch_config', coalesce(v_type, 'null')
      using errcode = 'HF002';
  end if;
  with created as (
    insert into holdfast.dispatch_item (
      item_type, item_id, exec_time, due_at, context_hash, init_workflow_id, created_at, updated_at
    )
    select v_type, it ->> 0, at.exec_time, at.exec_time, holdfast.context_hash(it -> 2, it -> 3), it ->> 4, v_now, v_now
    from jsonb_array_elements(v_items) as it,
    lateral (select to_timestamp((it -> 1)::float8 / 1000) as exec_time) as at
    on conflict (item_type, item_id) do nothing
    returning item_id
  )
  select array_agg(item_id), count(*) into v_new, v_created from created;

  if v_created = jsonb_array_length(v_items) then
    insert into holdfast.dispatch_context (
      item_type, item_id, context, notes, context_version, checked, details, created_at, updated_at
    )
    select v_type, it ->> 0, it -> 2, nullif(it -> 3, 'null'), v_version, v_checked, nullif(it -> 5, 'null'), v_now, v_now
    from jsonb_array_elements(v_items) as it;
    return json_build_object('created', v_created);
  end if;
  insert into holdfast.dispatch_context (
    item_type, item_id, context, notes, context_version, checked, details, created_at, updated_at
  )
  select v_type, it ->> 0, it -> 2, nullif(it -> 3, 'null'), v_version, v_checked, nullif(it -> 5, 'null'), v_now, v_now
  from jsonb_array_elements(v_items) as it
  where it ->> 0 = any (v_new)
  -- The same item twice in one call: the second is compared with the first.
  on conflict (item_type, item_id) do nothing;
  return json_build_object('created', v_created, 'others', (
    select json_agg(json_build_array(asked.place - 1, found.outcome) order by asked.place)
    from jsonb_array_elements(v_items) with ordinality as asked (it, place),
    lateral (select holdfast.meet_scheduled(v_type, asked.it, v_version, v_checked, (request ->> 'replace')::boolean, v_now) as outcome) as found
    where asked.it ->> 0 <> all (coalesce(v_new, '{}')) or found.outcome <> 'same'
  ));
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.send(domain text, type text, data jsonb, options jsonb DEFAULT '{}'::jsonb)
 RETURNS uuid
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.send_commands(request jsonb)
 RETURNS TABLE(in_domain text, id uuid, outcome text)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_queue text;
  v_domain text;
  v_rows jsonb;
  v_plain boolean;
  v_gone text[];
  v_batches uuid[];
  v_sequence regclass;
  v_type text;
  v_detail jsonb;
  v_sent int;
  v_ids bigint[];
  v_visible timestamptz[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_members uuid[];
  v_member_of uuid[];
begin
  for v_queue, v_domain, v_rows, v_plain in
    select part ->> 'queue', part ->> 'domain', part -> 'commands', coalesce((part -> 'plain')::boolean, false)
    from jsonb_array_elements(request) as part
    order by 1, 2
  loop
    if not holdfast.queue_exists(v_queue) then
      -- Returned and not raised: the request has commands of other senders too.
      return query select v_domain, (it ->> 'command_id')::uuid, 'queue gone' from jsonb_array_elements(v_rows) as it;
      continue;
    end if;
    v_sequence := pg_get_serial_sequence(format('pgmq.%I', 'q_' || v_queue), 'msg_id');
    if not v_plain then
      -- Sealing locks the batch for update and so waits for senders in flight; counting and closing do not wait for them.
      v_batches := array(
        select batch_id
        from holdfast.batch
        where batch_id = any (array(
          select (it ->> 'batch_id')::uuid from jsonb_array_elements(v_rows) as it where it ->> 'batch_id' is not null
        )) and not sealed
        order by batch_id
        for key share
      );
      v_gone := array(
        select distinct it ->> 'reply_to'
        from jsonb_array_elements(v_rows) as it
        where it ->> 'reply_to' is not null and not holdfast.queue_exists(it ->> 'reply_to')
      );
    end if;
    -- Most commands that are sent together have one type, and then their audit rows have the same text.
    v_type := v_rows -> 0 ->> 'type';
    v_detail := jsonb_build_object('domain', v_domain, 'type', v_type);
    with sent as (
      insert into holdfast.command (
        command_id, domain, type, max_attempts, msg_id, correlation_id, reply_to, batch_id, version,
        created_at, run_at, updated_at, send_token, key, data, notes
      )
      select
        (it ->> 'command_id')::uuid,
        v_domain,
        it ->> 'type',
        (it ->> 'max_attempts')::int,
        nextval(v_sequence),
        (it ->> 'correlation_id')::uuid,
        it ->> 'reply_to',
        (it ->> 'batch_id')::uuid,
        (it ->> 'version')::int,
        v_now,
        coalesce((it ->> 'run_at')::timestamptz, v_now + (it ->> 'delay_ms')::float8 * interval '1 ms'),
        v_now,
        (it ->> 'token')::uuid,
        -- Reading a missing field costs as much as reading any other.
        case when not v_plain then it ->> 'key' end,
        it -> 'data',
        nullif(it -> 'notes', 'null')
      from jsonb_array_elements(v_rows) as it
      where not coalesce(it ->> 'reply_to' = any (v_gone), false)
        and (it ->> 'batch_id' is null or (it ->> 'batch_id')::uuid = any (v_batches))
      on conflict (command_id, domain) do nothing
      returning *
    ),
    audits as (
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select v_now, 'commands', 'SENT', command_id,
        case type when v_type then v_detail else jsonb_build_object('domain', v_domain, 'type', type) end
      from sent
    )
    select
      count(*),
      array_agg(msg_id),
      -- Never before now: claims begin where the last one ended, and would find an earlier message late.
      array_agg(greatest(run_at, v_now)),
      array_agg(to_jsonb(message)),
      array_agg(case when notes is not null then jsonb_build_object('notes', notes) end),
      array_agg(sent.command_id) filter (where batch_id is not null),
      array_agg(batch_id) filter (where batch_id is not null)
    into v_sent, v_ids, v_visible, v_messages, v_headers, v_members, v_member_of
    from sent,
    lateral (
      select v_domain as domain, type as command_type, command_id, correlation_id, data, reply_to
    ) message;
    execute format('select %s%I($1, $2, $3, $4)', 'holdfast.', 'put_' || v_queue)
    using v_ids, v_visible, v_messages, v_headers;
    if v_members is not null then
      perform holdfast.join_batches(v_domain, v_members, v_member_of);
    end if;
    if v_sent < jsonb_array_length(v_rows) then
      return query
      select v_domain, (it ->> 'command_id')::uuid, case
          when it ->> 'reply_to' = any (v_gone) then 'reply queue gone'
          when it ->> 'batch_id' is not null and not (it ->> 'batch_id')::uuid = any (v_batches) then 'batch closed'
          else 'duplicate'
        end
      from jsonb_array_elements(v_rows) as it
      left join holdfast.command on command.command_id = (it ->> 'command_id')::uuid and command.domain || '' = v_domain
      -- A command with our token, or with an id that the client generated, was sent by us: now, or by an earlier flush whose response
      -- was lost (K-05).
      where case
        when it ->> 'token' is null then command.command_id is null
        else command.send_token is distinct from (it ->> 'token')::uuid
      end;
    end if;
    perform holdfast.wake('commands:' || v_domain);
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.send_for_processes(writes jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_request jsonb;
  v_refused record;
begin
  select jsonb_agg(jsonb_build_object('queue', part.queue, 'domain', part.domain, 'commands', part.commands))
  into v_request
  from (
    select it -> 'send' ->> 'queue' as queue, it -> 'send' ->> 'domain' as domain, jsonb_agg(it -> 'send' -> 'command') as commands
    from jsonb_array_elements(writes) as it
    where it ? 'send'
    group by 1, 2
  ) as part;
  if v_request is null then
    return;
  end if;
  select * into v_refused from holdfast.send_commands(v_request) limit 1;
  if found then
    raise exception 'command % of domain %: %', v_refused.id, v_refused.in_domain, v_refused.outcome
      using errcode = 'HF001', detail = v_refused.outcome;
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.send_replies(replies jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_queue text;
  v_messages jsonb;
begin
  for v_queue, v_messages in
    select it ->> 'queue', jsonb_agg(it) from jsonb_array_elements(replies) as it group by 1 order by 1
  loop
    begin
      execute format(
        $query$
        insert into pgmq.%I (vt, message, headers)
        select holdfast_now, it -> 'message', case when jsonb_typeof(it -> 'notes') = 'object' then jsonb_build_object('notes', it -> 'notes') end
        from jsonb_array_elements($1) as it, (select $2 as holdfast_now) as clock
        $query$, 'q_' || v_queue
      ) using v_messages, holdfast.now();
      perform holdfast.wake('queue:' || v_queue);
    exception when others then
      if sqlstate ~ '^(08|25|40|53|55|57|58|XX)' then
        raise;
      end if;
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select holdfast.now(), 'commands', 'REPLY_FAILED', (it ->> 'command_id')::uuid,
        jsonb_strip_nulls(jsonb_build_object('domain', it ->> 'domain', 'queue', v_queue, 'problem', sqlerrm))
      from jsonb_array_elements(v_messages) as it;
    end;
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.set_aside_workflow_steps(handlers text[], paused integer[], p_window integer)
 RETURNS integer[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_handler text;
  v_looked int;
  v_paused int;
  v_ids uuid[];
  v_numbers smallint[];
  v_definitions int[];
  v_free int[] := '{}';
begin
  foreach v_handler in array handlers loop
    select
      count(*), count(*) filter (where definition_id = any (paused)),
      array_agg(workflow_id) filter (where definition_id = any (paused) and not in_flight),
      array_agg(number) filter (where definition_id = any (paused) and not in_flight),
      array_agg(distinct definition_id) filter (where definition_id = any (paused) and not in_flight)
    into v_looked, v_paused, v_ids, v_numbers, v_definitions
    from (
      select workflow_id, number, definition_id, in_flight
      from holdfast.workflow_step
      where handler = v_handler and ready
      order by rank, scheduled_at
      limit p_window
    ) as front;
    v_free := v_free || case when v_looked < p_window then null else v_looked - v_paused end;
    continue when v_ids is null;
    insert into holdfast.workflow_set_aside (definition_id)
    select unnest(v_definitions)
    on conflict do nothing;
    update holdfast.workflow_step as step
    set ready = false, due_at = 'infinity'
    from (
      select locked.workflow_id, locked.number
      from unnest(v_ids, v_numbers) as asked (id, number)
      cross join lateral (
        select workflow_id, number
        from holdfast.workflow_step
        where workflow_id = asked.id and number = asked.number and ready and not in_flight
        for no key update skip locked
      ) as locked
    ) as it
    where step.workflow_id = it.workflow_id and step.number = it.number;
  end loop;
  return v_free;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.set_dispatch_config(p_type text, changes jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_row holdfast.dispatch_config;
begin
  select * into v_row from holdfast.dispatch_config where item_type = p_type for no key update;
  if not found then
    return false;
  end if;
  v_row := jsonb_populate_record(v_row, changes - array['item_type', 'engine', 'created_at', 'updated_at']);
  update holdfast.dispatch_config
  set enabled = v_row.enabled, batch_size = v_row.batch_size, dispatch_interval_secs = v_row.dispatch_interval_secs,
      jitter_window_ms = v_row.jitter_window_ms, pre_start_buffer_mins = v_row.pre_start_buffer_mins,
      max_dispatch_retries = v_row.max_dispatch_retries, stale_claim_threshold_mins = v_row.stale_claim_threshold_mins,
      max_stale_recovery_per_cycle = v_row.max_stale_recovery_per_cycle, max_batches_ahead = v_row.max_batches_ahead,
      trip_after = v_row.trip_after,
      exec_workflow_type = v_row.exec_workflow_type, exec_task_queue = v_row.exec_task_queue,
      rate_limit_key = v_row.rate_limit_key
  where item_type = p_type;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.set_workflow_aging(p_aging real, p_actor text, p_reason text)
 RETURNS real
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_before float4;
begin
  select aging into v_before from holdfast.workflow_setting for update;
  update holdfast.workflow_setting set aging = p_aging;
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
  values (holdfast.now(), 'workflows', 'CONFIGURED', 'aging', p_actor, p_reason,
    jsonb_build_object('aging', v_before), jsonb_build_object('aging', p_aging));
  return v_before;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.shown_priority(priority integer, aging real, scheduled timestamp with time zone, at timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT (LEAST((100)::bigint, (priority + (floor(((GREATEST((0)::numeric, EXTRACT(epoch FROM (at - scheduled))))::double precision * aging)))::bigint)))::integer AS "least";
END
;

CREATE OR REPLACE FUNCTION holdfast.slots_lock(p_type text)
 RETURNS bigint
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select hashtextextended('holdfast slots ' || p_type, (select tableoid from holdfast.clock)::bigint)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.start(domain text, type text, input jsonb, options jsonb DEFAULT '{}'::jsonb)
 RETURNS uuid
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.start_dispatched(request jsonb, config holdfast.dispatch_config, ids text[], slots double precision[], p_now timestamp with time zone, taken jsonb)
 RETURNS TABLE(bad jsonb, existing uuid[])
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_is_process boolean := config.engine = 'PROCESS';
  v_exec_type text := request ->> 'execType';
  v_version int := (request ->> 'version')::int;
  v_context_version int := (request ->> 'contextVersion')::int;
  v_redirected boolean := (request ->> 'redirected')::boolean;
  v_definition int := (request ->> 'definitionId')::int;
  -- Ids of one batch are close together in the index, like the ids that clients generate.
  v_prefix text := lpad(to_hex(floor(extract(epoch from p_now) * 1000)::bigint), 12, '0');
  v_ids uuid[];
  v_starts timestamptz[];
  v_unchecked boolean[];
begin
  v_prefix := substr(v_prefix, 1, 8) || '-' || substr(v_prefix, 9, 4) || '-7';
  with claimed as (
    update holdfast.dispatch_item as item
    set status = 'DISPATCHED',
        due_at = null,
        batch_id = (request ->> 'batch')::uuid,
        execution_id = holdfast.next_execution_id(item_type, item_id, failed_executions, execution_id),
        claimed_at = p_now,
        dispatched_at = p_now,
        updated_at = p_now
    where item_type = config.item_type and item_id = any (ids) and status = 'READY'
    returning item.item_id, item.execution_id, item.exec_time
  ),
  batch as materialized (
    select
      claimed.item_id, claimed.execution_id, context.context, context.details,
      context.checked and context.context_version = v_context_version and not v_redirected as checked,
      -- The worker that executes it parses and encodes it again. Notes say so, so they are not null.
      case
        when context.checked and (context.context_version <> v_context_version or v_redirected)
          then coalesce(context.notes, '{}')
        else context.notes
      end as notes,
      overlay(gen_random_uuid()::text placing v_prefix from 1 for 15)::uuid as id,
      (taken -> claimed.item_id ->> 0)::uuid as taken_id, (taken -> claimed.item_id ->> 1)::boolean as is_own,
      case
        when slots is not null then greatest(claimed.exec_time, to_timestamp(slots[row_number() over ()] / 1000))
        else greatest(claimed.exec_time, p_now) + random() * config.jitter_window_ms * interval '1 ms'
      end as start_at
    from claimed
    left join lateral (
      select *
      from holdfast.dispatch_context
      where dispatch_context.item_type = config.item_type and dispatch_context.item_id = claimed.item_id
    ) as context on true
  ),
  details as (
    insert into holdfast.process_detail (
      id, type, model, key, created_at, start_at, updated_at, state, state_notes, state_checked, dispatch_item
    )
    select id, v_exec_type, 'PROCESS_STEP', execution_id, p_now, start_at, p_now, context, notes, checked, item_id
    from batch
    where v_is_process and context is not null and taken_id is null
  ),
  processes as (
    insert into holdfast.process (id, type, version, status, due_at, created_at, deadline_at, dispatch_type, unbegun_epoch)
    select id, v_exec_type, v_version, 'PENDING', start_at, p_now,
      case when batch.details is not null then coalesce(
        to_timestamp((batch.details ->> 'deadline_ms')::float8 / 1000),
        start_at + (batch.details ->> 'deadline_in_ms')::float8 * interval '1 ms'
      ) end,
      config.item_type, 0
    from batch
    where v_is_process and context is not null and taken_id is null
  ),
  workflows as (
    insert into holdfast.workflow (
      id, definition_id, name, version, key, status, created_at, updated_at, input, input_notes, dispatch_type, dispatch_item
    )
    select id, v_definition, v_exec_type, v_version, execution_id, 'PENDING', p_now, p_now, context, notes, config.item_type, item_id
    from batch
    where not v_is_process and context is not null and taken_id is null
  )
  select
    jsonb_agg(jsonb_build_object(
      'type', config.item_type, 'id', item_id, 'from', 'DISPATCHED', 'event', 'START_FAILED',
      'code', case when context is null then 'CONTEXT_MISSING' else 'EXECUTION_ID_TAKEN' end,
      'message', case
        when context is null then 'the context of the item is missing'
        else 'the execution id ' || execution_id || ' is that of something else'
      end,
      -- The next attempt uses another id.
      'execution', case when context is not null then execution_id end
    )) filter (where context is null or not is_own),
    array_agg(taken_id) filter (where context is not null and is_own),
    array_agg(id) filter (where not v_is_process and context is not null and taken_id is null),
    array_agg(start_at) filter (where not v_is_process and context is not null and taken_id is null),
    array_agg(not checked) filter (where not v_is_process and context is not null and taken_id is null)
  into bad, existing, v_ids, v_starts, v_unchecked
  from batch;
  if v_ids is not null then
    perform holdfast.queue_instance_starts(v_ids, array_fill(v_definition, array[cardinality(v_ids)]), v_starts, v_unchecked);
  end if;
  return next;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.start_managed(starts jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_answers json := holdfast.start_processes(starts);
  v_created uuid[] := array(
    select (answer ->> 0)::uuid from json_array_elements(v_answers) as answer where (answer ->> 1)::boolean
  );
  v_new uuid[];
begin
  -- The first event tells a process that was created now from one that an earlier flush had created, whose response was lost.
  with recorded as (
    insert into holdfast.process_history (process_id, generation, seq, epoch, at, kind, name, occurrence, status, detail)
    select asked.id, 1, 1, 0, holdfast.now(), asked.first ->> 'kind', asked.first ->> 'name', 1, 'STARTED', asked.first -> 'detail'
    from jsonb_to_recordset(starts) as asked (id uuid, first jsonb)
    where asked.id = any (v_created)
    on conflict do nothing
    returning process_id
  )
  select array_agg(process_id) into v_new from recorded;
  perform holdfast.send_for_processes((
    select coalesce(jsonb_agg(it), '[]') from jsonb_array_elements(starts) as it where (it ->> 'id')::uuid = any (v_new)
  ));
  return v_answers;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.start_option(p_function text, p_options jsonb)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select coalesce(
    holdfast.option_of(p_function, p_options, 'startAt', 'time')::timestamptz,
    holdfast.now() + holdfast.option_of(p_function, p_options, 'delay', 'duration')::float8 * interval '1 ms'
  )
$function$
;

CREATE OR REPLACE FUNCTION holdfast.start_process_from_sql(p_name text, p_version integer, p_input jsonb, options jsonb)
 RETURNS uuid
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.start_processes(starts jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_batches uuid[];
  v_created uuid[];
  v_type text;
begin
  if exists (select from holdfast.pause) and starts @? '$[*].lease_ms' then
    -- Paused: its caller does not execute it; a worker does when it is resumed (K-18).
    starts := (
      select jsonb_agg(
        case when it ? 'lease_ms' and holdfast.is_paused(array[
          'domain:' || split_part(it ->> 'type', '/', 1), 'definition:' || (it ->> 'type')
        ]) then it - 'lease_ms' - 'worker' else it end
        order by place
      )
      from jsonb_array_elements(starts) with ordinality as asked (it, place)
    );
  end if;
  if starts @? '$[*].batch_id' then
    v_batches := array(
      select batch_id
      from holdfast.batch
      where batch_id = any (array(
        select (it ->> 'batch_id')::uuid from jsonb_array_elements(starts) as it where it ->> 'batch_id' is not null
      )) and not sealed
      order by batch_id
      for key share
    );
  end if;
  with created as (
    insert into holdfast.process_detail (
      id, type, model, key, parent_id, parent_call, batch_id, attributes, created_at, start_at, updated_at, state,
      state_notes, state_checked, waiting_for
    )
    select
      asked.id, asked.type, asked.model, asked.key, asked.parent_id, asked.parent_call, asked.batch_id, asked.attributes,
      v_now, greatest(v_now, to_timestamp(asked.start_ms / 1000), v_now + asked.start_in_ms * interval '1 ms'), v_now, asked.state, asked.notes,
      asked.unchecked is not true, asked.first ->> 'name'
    from jsonb_to_recordset(starts) as asked (
      id uuid, type text, model text, key text, parent_id uuid, parent_call text, batch_id uuid, attributes jsonb,
      state jsonb, notes jsonb, start_ms float8, start_in_ms float8, unchecked boolean, first jsonb
    )
    where asked.batch_id is null or asked.batch_id = any (v_batches)
    on conflict do nothing
    returning id, batch_id, type
  ),
  members as (
    -- With the full name as domain: a command of the same id may be in the same batch.
    insert into holdfast.batch_open (batch_id, command_id, domain)
    select batch_id, id, type from created where batch_id is not null
  ),
  tallies as (
    insert into holdfast.batch_tally (batch_id, added)
    select batch_id, count(*) from created where batch_id is not null group by batch_id
  )
  select array_agg(id) into v_created from created;

  -- Those with a lease are executed by their callers, from the first moment; the others become due.
  insert into holdfast.process (id, type, version, status, due_at, lease_epoch, leased_by, leased_at, last_write, created_at, deadline_at)
  select
    asked.id, asked.type, asked.version, coalesce(asked.status, 'PENDING'),
    case
      when asked.lease_ms is not null then v_now + asked.lease_ms * interval '1 ms'
      -- A step-based process has sent its first command; it is due only if its first step waits and has a time limit.
      when asked.model = 'PROCESS_STEP' or asked.looks then greatest(v_now, to_timestamp(asked.start_ms / 1000), v_now + asked.start_in_ms * interval '1 ms')
    end,
    case when asked.lease_ms is not null then 1 else 0 end,
    asked.worker,
    case when asked.lease_ms is not null then v_now end,
    asked.token,
    v_now,
    -- A duration is counted from the start, which may be later.
    coalesce(
      to_timestamp(asked.deadline_ms / 1000),
      greatest(v_now, to_timestamp(asked.start_ms / 1000), v_now + asked.start_in_ms * interval '1 ms') + asked.deadline_in_ms * interval '1 ms'
    )
  from jsonb_to_recordset(starts) as asked (
    id uuid, type text, model text, version int, status text, lease_ms int, worker text, token uuid, start_ms float8,
    start_in_ms float8,
    deadline_ms float8, deadline_in_ms float8, looks boolean
  )
  where asked.id = any (v_created);

  for v_type in
    select distinct asked.type
    from jsonb_to_recordset(starts) as asked (type text, model text, lease_ms int, looks boolean)
    where asked.lease_ms is null and (asked.model = 'PROCESS_STEP' or asked.looks)
  loop
    perform holdfast.wake('processes:' || v_type);
  end loop;
  return (
    select json_agg(json_build_array(
      coalesce(process.id, existing.id),
      process.last_write is not distinct from asked.token and process.id is not null,
      case
        when asked.batch_id is not null and not asked.batch_id = any (v_batches) then 'batch closed'
        when coalesce(process.type, existing.type) <> asked.type then 'other type'
        else coalesce(process.status, (select status from holdfast.process where id = existing.id))
      end,
      floor(extract(epoch from v_now) * 1000),
      floor(extract(epoch from process.deadline_at) * 1000),
      coalesce(process.last_write = asked.token and process.leased_at is not null and process.lease_epoch = 1, false)
    ) order by asked.place)
    from rows from (
      jsonb_to_recordset(starts) as (id uuid, type text, key text, token uuid, batch_id uuid)
    ) with ordinality as asked (id, type, key, token, batch_id, place)
    left join holdfast.process on process.id = asked.id
    left join holdfast.process_detail as existing
      on process.id is null and existing.type = asked.type and existing.key = asked.key
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.start_workflow_from_sql(p_name text, p_input jsonb, options jsonb)
 RETURNS uuid
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.start_workflow_instances(docs jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_docs jsonb := docs;
  v_new uuid[];
begin
  with created as (
    insert into holdfast.workflow (
      id, definition_id, name, version, key, status, created_at, updated_at, ended_at, input, input_notes, output, output_notes,
      failed_step, failure
    )
    select
      id, definition_id, name, version, key, status, v_now, v_now, case when ended then v_now end, input, input_notes,
      output, output_notes, failed_step, failure
    from jsonb_to_recordset(docs) as asked (
      id uuid, definition_id int, name text, version int, key text, status text, ended boolean, input jsonb, input_notes jsonb,
      output jsonb, output_notes jsonb, failed_step text, failure jsonb
    )
    on conflict do nothing
    returning id
  )
  select array_agg(id) into v_new from created;
  if v_new is not null then
    if cardinality(v_new) < jsonb_array_length(docs) then
      select jsonb_agg(it order by place) into v_docs
      from jsonb_array_elements(docs) with ordinality as asked (it, place)
      where (it ->> 'id')::uuid = any (v_new);
    end if;
    perform holdfast.add_workflow_rows(v_docs, v_now);
    if v_docs @? '$[*] ? (@.status == "PENDING")' then
      perform holdfast.queue_instance_starts(
        array_agg(id), array_agg(definition_id),
        array_agg(coalesce(to_timestamp(start_ms / 1000), v_now + start_in_ms * interval '1 ms', v_now)),
        array_agg(unchecked is true)
      )
      from jsonb_to_recordset(v_docs) as asked (
        id uuid, definition_id int, status text, start_ms float8, start_in_ms float8, unchecked boolean
      )
      where status = 'PENDING';
    end if;
    if cardinality(v_new) = jsonb_array_length(docs) then
      return null;
    end if;
  end if;
  return (
    select json_agg(
      json_build_array(coalesce(same.id, keyed.id), asked.id = any (v_new), coalesce(same.name, keyed.name),
        coalesce(same.version, keyed.version))
      order by place
    )
    from jsonb_array_elements(docs) with ordinality as it (doc, place)
    cross join lateral jsonb_to_record(it.doc) as asked (id uuid, name text, key text)
    left join holdfast.workflow as same on same.id = asked.id
    left join holdfast.workflow as keyed on keyed.name = asked.name and keyed.key = asked.key
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.store_checked_state(p_id uuid, p_epoch integer, p_state jsonb, p_notes jsonb, p_deadline_ms double precision, p_deadline_in_ms double precision)
 RETURNS TABLE(deadline_ms double precision)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_deadline timestamptz;
begin
  update holdfast.process
  set deadline_at = coalesce(
    deadline_at, to_timestamp(p_deadline_ms / 1000), holdfast.now() + p_deadline_in_ms * interval '1 ms'
  )
  where id = p_id and lease_epoch = p_epoch
  returning deadline_at into v_deadline;
  if not found then
    return;
  end if;
  update holdfast.process_detail
  set state = p_state, state_notes = p_notes, state_checked = true
  where id = p_id;
  return query select floor(extract(epoch from v_deadline) * 1000)::float8;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.sweep_unhandled(p_domain text, p_age interval)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_uuid constant text := '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';
  v_now timestamptz := holdfast.now();
  v_queue text := (select queue from holdfast.command_queue where domain = p_domain);
  v_ids bigint[];
  v_reads int[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_swept int;
  v_replies jsonb;
begin
  if v_queue is null or to_regclass(format('pgmq.%I', 'q_' || v_queue)) is null then
    return 0;
  end if;
  -- After an outage every live worker first gets time for its heartbeat.
  if not holdfast.absence_counts() then
    return 0;
  end if;
  execute format(
    $query$
    with recursive types as (
      (select message ->> 'command_type' as type from pgmq.%1$I
       where message ->> 'command_type' is not null order by message ->> 'command_type' limit 1)
      union all
      select (
        select message ->> 'command_type' from pgmq.%1$I
        where message ->> 'command_type' > types.type order by message ->> 'command_type' limit 1
      )
      from types
      where types.type is not null
    )
    select array_agg(stale.msg_id), array_agg(stale.read_ct), array_agg(stale.message), array_agg(stale.headers)
    from types,
    lateral (
      select msg_id, read_ct, message, headers from pgmq.%1$I
      where message ->> 'command_type' = types.type and vt <= $2 - $3
      order by vt
      limit 500
      for update skip locked
    ) as stale
    where not exists (
      select from %2$s.worker_definition as seen
      where seen.model = 'commands' and seen.name = $1 || '/' || types.type and seen.seen_at > $2 - $3
    )
    $query$, 'q_' || v_queue, holdfast.own_schema()
  ) into v_ids, v_reads, v_messages, v_headers using p_domain, v_now, p_age;
  if v_ids is null then
    return 0;
  end if;
  perform holdfast.adopt_messages(p_domain, v_now, v_ids, v_messages, v_headers);
  perform pgmq.archive(v_queue, v_ids);
  with stale as (
    select
      msg_id,
      read_ct,
      case when message ->> 'command_id' ~ v_uuid then (message ->> 'command_id')::uuid end as command_id
    from unnest(v_ids, v_reads, v_messages) as stale (msg_id, read_ct, message)
  ),
  changed as (
    update holdfast.command
    set status = 'IN_TROUBLESHOOTING_QUEUE', msg_id = null, updated_at = v_now, error_kind = 'PERMANENT',
        error_code = 'NO_HANDLER', error_message = 'no worker has a handler for ' || command.type,
        -- A worker has received it before. Whether its handler must not be called twice is not known here.
        inquiry = case when stale.read_ct > 0 then coalesce(inquiry, 'possible') else inquiry end,
        effect = case when stale.read_ct > command.attempts then 'unknown' else effect end
    from stale
    where command.command_id = stale.command_id and command.domain = p_domain
      and command.msg_id = stale.msg_id and command.status = 'PENDING'
    returning command.*
  ),
  audited as (
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'commands', 'MOVED_TO_TSQ', command_id,
      jsonb_build_object('domain', p_domain, 'error_code', error_code, 'error_message', error_message)
    from changed
  ),
  troubled as (
    insert into holdfast.command_trouble (
      command_id, domain, type, since, error_kind, error_code, error_message, fingerprint, batch_id
    )
    select command_id, domain, type, v_now, error_kind, error_code, error_message, 'NO_HANDLER:' || type, batch_id from changed
  )
  select
    count(*),
    jsonb_agg(jsonb_build_object('domain', p_domain, 'queue', reply_to, 'command_id', command_id, 'message', jsonb_strip_nulls(jsonb_build_object(
      'command_id', command_id, 'correlation_id', correlation_id, 'outcome', 'FAILED', 'final', false,
      'error_type', error_kind, 'error_code', error_code, 'error_message', error_message
    )))) filter (where reply_to is not null)
  into v_swept, v_replies
  from changed;
  if v_replies is not null then
    perform holdfast.send_replies(v_replies);
  end if;
  return v_swept;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.take_back_workflow_steps(paused integer[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_definition int;
begin
  for v_definition in
    select definition_id
    from holdfast.workflow_set_aside
    where definition_id <> all (coalesce(paused, '{}'))
    order by definition_id
    for update skip locked
  loop
    update holdfast.workflow_step as step
    set ready = true, due_at = scheduled_at
    from (
      select workflow_id, number
      from holdfast.workflow_step
      where definition_id = v_definition and due_at = 'infinity'
      order by rank, scheduled_at
      limit 1000
      for no key update skip locked
    ) as it
    where step.workflow_id = it.workflow_id and step.number = it.number;
    if not exists (select from holdfast.workflow_step where definition_id = v_definition and due_at = 'infinity') then
      delete from holdfast.workflow_set_aside where definition_id = v_definition;
    end if;
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.taken_executions(config holdfast.dispatch_config, ids text[], p_exec_type text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select jsonb_object_agg(item.item_id, jsonb_build_array(
    coalesce(detail.id, workflow.id),
    coalesce(detail.dispatch_item, workflow.dispatch_item) is not distinct from item.item_id
  ))
  from holdfast.dispatch_item as item
  cross join lateral (
    select holdfast.next_execution_id(item.item_type, item.item_id, item.failed_executions, item.execution_id)
  ) as execution (id)
  left join holdfast.process_detail as detail
    on config.engine = 'PROCESS' and detail.type = p_exec_type and detail.key = execution.id
  left join holdfast.workflow
    on config.engine = 'WORKFLOW' and workflow.name = p_exec_type and workflow.key = execution.id
  where item.item_type = config.item_type
    and item.item_id = any (ids)
    and (detail.id is not null or workflow.id is not null)
$function$
;

CREATE OR REPLACE FUNCTION holdfast.tally_dispatch_items()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if tg_op = 'INSERT' then
    insert into holdfast.dispatch_tally (item_type, status, minute, count)
    select item_type, status, date_trunc('minute', due_at), count(*)
    from added
    group by 1, 2, 3;
  elsif tg_op = 'DELETE' then
    insert into holdfast.dispatch_tally (item_type, status, minute, count)
    select item_type, status, date_trunc('minute', due_at), -count(*)
    from removed
    group by 1, 2, 3;
  else
    insert into holdfast.dispatch_tally (item_type, status, minute, count)
    select item_type, status, minute, sum(difference)
    from (
      select item_type, status, date_trunc('minute', due_at) as minute, count(*) as difference
      from added
      group by 1, 2, 3
      union all
      select item_type, status, date_trunc('minute', due_at), -count(*)
      from removed
      group by 1, 2, 3
    ) as both_sides
    group by 1, 2, 3
    having sum(difference) <> 0;
  end if;
  return null;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.time_option(p_function text, p_name text, p_value text, p_type text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  -- Without a zone it would mean another moment in every session.
  if p_type = 'string' and p_value ~* '^\d{4}-\d\d-\d\d.*(z|[+-]\d\d(:?\d\d)?)$' then
    return p_value::timestamptz;
  end if;
  raise invalid_datetime_format;
exception when invalid_datetime_format or datetime_field_overflow or invalid_time_zone_displacement_value or invalid_parameter_value then
  perform holdfast.refuse_option(p_function, p_name, 'must be a moment such as "2031-01-31T16:00:00Z", not ' || left(p_value, 100));
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.troubled_command(p_id uuid, p_generation integer)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.unhold_dispatched(p_type text, p_engine text)
 RETURNS integer
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_types text[] := (select exec_types from holdfast.dispatch_cycle where item_type = p_type);
  v_type text;
  v_count int;
begin
  -- A claim that saw the switch off may be holding an execution back right now: wait for it, so that the statements below see it.
  perform pg_advisory_xact_lock(holdfast.dispatch_gate(p_type));
  if p_engine = 'WORKFLOW' then
    update holdfast.workflow_step
    set handler = name,
        due_at = greatest(v_now, scheduled_at),
        ready = scheduled_at <= v_now,
        rank = holdfast.workflow_rank(scheduled_at, priority, aging)
    where number = -1
      and workflow_id = any (holdfast.dispatched_starts(p_type, v_types))
      and handler is null;
    get diagnostics v_count = row_count;
    perform holdfast.wake('workflows:_root_');
    return v_count;
  end if;
  update holdfast.process
  set due_at = greatest(v_now, detail.start_at)
  from holdfast.process_detail as detail
  where detail.id = process.id
    and process.id = any (array(
      select id
      from holdfast.process
      where status = 'PENDING'
        and type = any (v_types)
        and leased_at is null
        and lease_epoch = unbegun_epoch
        and due_at is null
        and queued_at is null
        and cancel is null
        and dispatch_type = p_type
      order by id
      for no key update
    ));
  get diagnostics v_count = row_count;
  foreach v_type in array coalesce(v_types, '{}') loop
    perform holdfast.wake('processes:' || v_type);
  end loop;
  return v_count;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.unresolved_calls(p_id uuid, p_generation integer)
 RETURNS TABLE(name text, occurrence integer, no_inquire boolean)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION holdfast.uuid_or_null(p_text text)
 RETURNS uuid
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  return p_text::uuid;
exception when invalid_text_representation then
  return null;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.wake(topic text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_bucket int := holdfast.wake_bucket_of(topic);
  v_now bigint := extract(epoch from clock_timestamp()) * 1000;
  -- By the sequence's name and with assignments: a query for each would cost an idle sender more than the notification.
  v_sequence regclass := ('holdfast.wake_' || v_bucket)::regclass;
  v_last bigint := pg_sequence_last_value(v_sequence);
begin
  -- The distance counts in both directions: a clock that was set back must not silence wake-ups until it catches up.
  if v_last is null or abs(v_now - v_last) >= 5 then
    v_last := setval(v_sequence, v_now);
    perform pg_notify(holdfast.wake_channel(), v_bucket::text);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.wake_bucket_of(topic text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT (hashtext(topic) & 15);
END
;

CREATE OR REPLACE FUNCTION holdfast.wake_channel()
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT ('holdfast_'::text || ('holdfast.clock'::regclass)::oid);
END
;

CREATE OR REPLACE FUNCTION holdfast.wake_results(p_model text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if exists (select from holdfast.result_wait where model = p_model and until > holdfast.now()) then
    perform holdfast.wake('results:' || p_model);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.weigh_lost_claims(p_source text, ids text[], epochs integer[], progresses text[])
 RETURNS TABLE(id text, lost_alone integer, lost_shared integer, known_before boolean, counted boolean, interrupted boolean, first_to_try boolean)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  return query
  with asked as (
    select it.id, it.epoch, it.progress, known.state, known.lost_alone, known.lost_shared,
      known.state is not null as chained,
      known.progress is not distinct from it.progress as stands_still
    from unnest(ids, epochs, progresses) as it (id, epoch, progress)
    left join holdfast.lost_claim as known
      on known.source = p_source and known.id = it.id and known.epoch = it.epoch - 1
  ),
  counts as (
    select asked.*,
      case when chained and stands_still then asked.lost_alone else 0 end + (chained and state = 'alone')::int as alone,
      case when chained and stands_still then asked.lost_shared else 0 end
        + (not chained or state = 'begun')::int as shared
    from asked
  ),
  weighed as (
    insert into holdfast.lost_claim as noted (source, id, epoch, progress, state, lost_alone, lost_shared, at)
    select
      p_source, asked.id, asked.epoch, asked.progress,
      -- An item that was interrupted, or lost for the first time, runs beside other work at once.
      case when asked.state = 'interrupted' or alone + shared <= 1 then 'begun' else 'claimed' end,
      alone,
      shared,
      holdfast.now()
    from counts as asked
    order by asked.id
    on conflict on constraint lost_claim_pkey do update
    set epoch = excluded.epoch, progress = excluded.progress, state = excluded.state, lost_alone = excluded.lost_alone,
        lost_shared = excluded.lost_shared, at = excluded.at
    returning noted.id, noted.lost_alone, noted.lost_shared
  )
  select weighed.id, weighed.lost_alone, weighed.lost_shared,
    asked.chained,
    coalesce(asked.state = 'alone', false),
    coalesce(asked.state = 'interrupted', false),
    coalesce(asked.state in ('begun', 'alone'), false)
  from weighed
  join asked on asked.id = weighed.id;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.weigh_lost_commands(p_queue text, p_domain text, items json)
 RETURNS json
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids text[];
  v_epochs int[];
  v_items json;
begin
  select array_agg(item ->> 'id'), array_agg((item ->> 'epoch')::int)
  into v_ids, v_epochs
  from json_array_elements(items) as item
  join holdfast.command on command.command_id = (item ->> 'commandId')::uuid and command.domain || '' = p_domain
  where (item ->> 'epoch')::int > 1 and command.attempts < (item ->> 'epoch')::int - 1;
  if v_ids is null then
    return items;
  end if;
  with weighed as (
    select it.*, asked.epoch
    from holdfast.weigh_lost_claims('commands:' || p_queue, v_ids, v_epochs, array_fill(null::text, array[cardinality(v_ids)])) as it
    join unnest(v_ids, v_epochs) as asked (id, epoch) on asked.id = it.id
  ),
  claimed as (
    select item, place, weighed.*, (item ->> 'commandId')::uuid as command_id
    from json_array_elements(items) with ordinality as received (item, place)
    left join weighed on weighed.id = item ->> 'id'
  ),
  changed as (
    update holdfast.command
    -- The first recorded loss stands for all receives since the last attempt that ended.
    set uncounted = least(claimed.epoch - 1, uncounted + case
          when claimed.counted then 0
          when claimed.known_before then 1
          else claimed.epoch - 1 - attempts
        end)
    from claimed
    where claimed.id is not null and command.command_id = claimed.command_id and command.domain || '' = p_domain
    returning command.command_id, command.uncounted
  )
  select json_agg(
    case when claimed.id is null then item
      else (item::jsonb || jsonb_build_object('uncounted', changed.uncounted, 'lost', holdfast.lost_claim_json(
        claimed.lost_alone, claimed.lost_shared, claimed.counted, claimed.interrupted, claimed.first_to_try
      )))::json
    end
    order by place
  )
  into v_items
  from claimed
  left join changed on changed.command_id = claimed.command_id;
  return v_items;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.weigh_lost_processes(items json, lost uuid[])
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids text[];
  v_epochs int[];
  v_progresses text[];
begin
  select array_agg(process.id::text), array_agg(process.lease_epoch), array_agg(process.generation || '/' || coalesce((
    -- Events that only record interrupted calls are no progress.
    select max(seq)
    from holdfast.process_history as history
    where history.process_id = process.id
      and history.generation = process.generation
      and not coalesce(history.detail ? 'recovered', false)
  ), 0))
  into v_ids, v_epochs, v_progresses
  from holdfast.process
  where process.id = any (lost);
  return (
    with weighed as (
      select * from holdfast.weigh_lost_claims('processes', v_ids, v_epochs, v_progresses)
    )
    select json_agg(
      case when weighed.id is null then item
        else (item::jsonb || jsonb_build_object('lost', holdfast.lost_claim_json(
          weighed.lost_alone, weighed.lost_shared, weighed.counted, weighed.interrupted, weighed.first_to_try
        )))::json
      end
      order by place
    )
    from json_array_elements(items) with ordinality as claimed (item, place)
    left join weighed on weighed.id = item ->> 'id'
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.weigh_lost_steps(items json, lost uuid[], lost_numbers smallint[])
 RETURNS json
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_ids text[];
  v_epochs int[];
  v_progresses text[];
begin
  select array_agg(workflow_id || '/' || number), array_agg(lease_epoch), array_agg(compensates::text)
  into v_ids, v_epochs, v_progresses
  from holdfast.workflow_step
  where (workflow_id, number) in (select * from unnest(lost, lost_numbers));
  return (
    with weighed as (
      select * from holdfast.weigh_lost_claims('workflows', v_ids, v_epochs, v_progresses)
    )
    select json_agg(
      case when weighed.id is null then item
        else (item::jsonb || jsonb_build_array(holdfast.lost_claim_json(
          weighed.lost_alone, weighed.lost_shared, weighed.counted, weighed.interrupted, weighed.first_to_try
        )))::json
      end
      order by place
    )
    from json_array_elements(items) with ordinality as claimed (item, place)
    left join weighed on weighed.id = (item ->> 0) || '/' || (item ->> 1)
  );
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.withdraw_remotes(p_id uuid, p_type text, p_actor text, p_reason text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_replies text := split_part(p_type, '/', 1) || '__process_replies';
  v_sent record;
begin
  for v_sent in
    select command.domain, command.type, command.command_id
    from holdfast.command
    where command.correlation_id = p_id
      -- In another schema its name is in front.
      and right(command.reply_to, length(v_replies)) = v_replies
      and command.status in ('PENDING', 'IN_TROUBLESHOOTING_QUEUE')
    order by command.command_id
  loop
    if holdfast.cancel_command(v_sent.domain, v_sent.command_id, p_actor, p_reason) = 'ended' then
      perform holdfast.operate_commands('CANCEL', v_sent.domain, array[v_sent.command_id], p_actor, p_reason, null, null, null);
    end if;
    if exists (
      select from holdfast.command
      where command.command_id = v_sent.command_id
        and command.domain = v_sent.domain
        and command.status in ('PENDING', 'IN_TROUBLESHOOTING_QUEUE')
    ) then
      raise exception '%/% %', v_sent.domain, v_sent.type, v_sent.command_id using errcode = 'HF002';
    end if;
  end loop;
  perform holdfast.cancel_process(child.id, 'PLAIN', p_actor, p_reason)
  from (
    select detail.id
    from holdfast.process_detail as detail
    join holdfast.process on process.id = detail.id
    where detail.parent_id = p_id and detail.ended_at is null and process.cancel is null
    order by detail.id
  ) as child;
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.workflow_aging()
 RETURNS real
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select aging from holdfast.workflow_setting
$function$
;

CREATE OR REPLACE FUNCTION holdfast.workflow_rank(scheduled timestamp with time zone, priority integer, aging real)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT
         CASE
             WHEN (priority >= 100) THEN scheduled
             WHEN (aging > (0)::double precision) THEN (scheduled + (LEAST((((100 - priority))::double precision / (aging)::double precision), ('10000000000'::numeric)::double precision) * '00:00:01'::interval))
             ELSE ('9000-01-01 00:00:00+00'::timestamp with time zone + (((100 - priority))::double precision * '1 day'::interval))
         END AS "case";
END
;

CREATE OR REPLACE FUNCTION holdfast.workflow_step_changes(docs jsonb, at timestamp with time zone)
 RETURNS TABLE(workflow_id uuid, definition_id integer, number smallint, epoch integer, name text, status text, queue text, handler text, compensates boolean, due timestamp with time zone, priority smallint, in_flight boolean, abort boolean, attempts integer, compensation_attempts integer, outcome text, compensation_outcome text, ended_order integer, side text, dlq boolean, ended boolean, has_input boolean, input jsonb, input_notes jsonb, has_output boolean, output jsonb, output_notes jsonb, failure jsonb)
 LANGUAGE sql
 STABLE PARALLEL SAFE
BEGIN ATOMIC
 SELECT doc.id,
     doc.definition_id,
     step.number,
     step.epoch,
     step.name,
     step.status,
     step.queue,
     step.handler,
     COALESCE(step.compensates, false) AS "coalesce",
         CASE step.queue
             WHEN 'add'::text THEN (workflow_step_changes.at + (COALESCE(step.delay_ms, (0)::double precision) * '00:00:00.001'::interval))
             ELSE NULL::timestamp with time zone
         END AS "case",
     step.priority,
     COALESCE(step.in_flight, false) AS "coalesce",
     COALESCE(step.abort, false) AS "coalesce",
     COALESCE(step.attempts, 0) AS "coalesce",
     COALESCE(step.compensation_attempts, 0) AS "coalesce",
     step.outcome,
     step.compensation_outcome,
     step.ended_order,
     step.side,
     COALESCE(step.dlq, false) AS "coalesce",
     COALESCE(step.ended, false) AS "coalesce",
     step.has_input,
     step.input,
     step.input_notes,
     step.has_output,
     step.output,
     step.output_notes,
     step.failure
    FROM (jsonb_to_recordset(workflow_step_changes.docs) doc(id uuid, definition_id integer, steps jsonb)
      CROSS JOIN LATERAL jsonb_to_recordset(doc.steps) step(number smallint, epoch integer, name text, status text, queue text, handler text, compensates boolean, delay_ms double precision, priority smallint, in_flight boolean, abort boolean, attempts integer, compensation_attempts integer, outcome text, compensation_outcome text, ended_order integer, side text, dlq boolean, ended boolean, has_input boolean, input jsonb, input_notes jsonb, has_output boolean, output jsonb, output_notes jsonb, failure jsonb));
END
;

CREATE OR REPLACE FUNCTION holdfast.workflow_write_answers(docs jsonb, mine uuid[])
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select json_agg(
    case
      when asked.id = any (mine) or workflow.last_write = asked.token then 0
      when workflow.revision is distinct from asked.revision then 1
      when exists (
        select
        from jsonb_to_recordset(asked.steps) as step (number smallint, epoch int)
        left join holdfast.workflow_step on workflow_id = asked.id and workflow_step.number = step.number
        where step.epoch is not null and workflow_step.lease_epoch is distinct from step.epoch
      ) then 1
      else 2
    end
    order by place
  )
  from jsonb_array_elements(docs) with ordinality as it (doc, place)
  cross join lateral jsonb_to_record(it.doc) as asked (id uuid, revision int, token uuid, steps jsonb)
  left join holdfast.workflow on workflow.id = asked.id
$function$
;

CREATE OR REPLACE FUNCTION holdfast.write_processes(writes jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_mine uuid[];
  v_writes jsonb := writes;
  v_events int;
  v_inserted int;
  v_rests boolean;
begin
  -- The fence: the row is locked and its epoch compared, in the order of ids, which is the order of the writes.
  select array_agg(locked.id)
  into v_mine
  from jsonb_to_recordset(writes) as asked (id uuid, epoch int, to_status text, responses int, heard_cancel boolean)
  cross join lateral (
    select process.id
    from holdfast.process
    where process.id = asked.id
      and process.lease_epoch = asked.epoch
      and (
        asked.to_status is null
        or process.responses = asked.responses and (process.cancel is null or asked.heard_cancel)
      )
    for no key update skip locked
  ) as locked;
  if v_mine is null then
    return holdfast.process_write_answers(writes, '{}');
  end if;
  if cardinality(v_mine) < jsonb_array_length(writes) then
    select jsonb_agg(it order by place) into v_writes
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
    where (it ->> 'id')::uuid = any (v_mine);
  end if;

  insert into holdfast.process_history (
    process_id, generation, seq, epoch, at, kind, name, occurrence, status, attempt, seen, next_at, result, notes, detail
  )
  select
    asked.id, asked.generation, event.seq, asked.epoch, to_timestamp(event.at / 1000), event.kind, event.name,
    event.occurrence, event.status, event.attempt, event.seen, to_timestamp(event.next_at / 1000), event.result,
    event.notes, event.detail
  from jsonb_to_recordset(v_writes) as asked (id uuid, epoch int, generation int, events jsonb)
  cross join lateral jsonb_to_recordset(asked.events) as event (
    seq int, at float8, kind text, name text, occurrence int, status text, attempt int, seen int, next_at float8,
    result jsonb, notes jsonb, detail jsonb
  )
  on conflict (process_id, generation, seq) do nothing;
  get diagnostics v_inserted = row_count;
  select sum(jsonb_array_length(it -> 'events')), bool_or(it ? 'to_status')
  into v_events, v_rests
  from jsonb_array_elements(v_writes) as it;
  if v_inserted < v_events then
    -- Ours, from an earlier flush whose response was lost. Anything else means that two executions wrote one history.
    if exists (
      select
      from jsonb_to_recordset(v_writes) as asked (id uuid, epoch int, generation int, events jsonb)
      cross join lateral jsonb_to_recordset(asked.events) as event (seq int)
      join holdfast.process_history as history
        on history.process_id = asked.id and history.generation = asked.generation and history.seq = event.seq
      where history.epoch <> asked.epoch
    ) then
      raise exception 'the history of a process was written by another epoch' using errcode = 'data_corrupted';
    end if;
  end if;
  if v_rests then
    perform holdfast.rest_processes(v_writes, v_now);
  end if;
  if cardinality(v_mine) = jsonb_array_length(writes) then
    return null;
  end if;
  return holdfast.process_write_answers(writes, v_mine);
end
$function$
;

CREATE OR REPLACE FUNCTION holdfast.write_workflow_changes(docs jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_material TO 'off'
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_now timestamptz := holdfast.now();
  v_aging float4 := holdfast.workflow_aging();
  v_docs jsonb := docs;
  v_mine uuid[];
  v_dispatched uuid[];
  v_changed int;
  v_locked int;
begin
  select array_agg(locked.id)
  into v_mine
  from jsonb_to_recordset(docs) as asked (id uuid, revision int)
  cross join lateral (
    select workflow.id
    from holdfast.workflow
    where workflow.id = asked.id and workflow.revision = asked.revision
    for no key update skip locked
  ) as locked;
  if v_mine is null then
    return holdfast.workflow_write_answers(docs, '{}');
  end if;
  -- A claim changes a step without a decision, so the epochs of the steps are compared too.
  select count(*), count(locked.number)
  into v_changed, v_locked
  from jsonb_to_recordset(docs) as asked (id uuid, steps jsonb)
  cross join lateral jsonb_to_recordset(asked.steps) as step (number smallint, epoch int)
  left join lateral (
    select number
    from holdfast.workflow_step
    where workflow_id = asked.id and workflow_step.number = step.number and lease_epoch = step.epoch
    for no key update skip locked
  ) as locked on true
  where step.epoch is not null;
  if v_locked < v_changed then
    v_mine := array(
      select asked.id
      from jsonb_to_recordset(docs) as asked (id uuid, steps jsonb)
      where asked.id = any (v_mine)
        and not exists (
          select
          from jsonb_to_recordset(asked.steps) as step (number smallint, epoch int)
          where step.epoch is not null
            and not exists (
              select from holdfast.workflow_step
              where workflow_id = asked.id and workflow_step.number = step.number and lease_epoch = step.epoch
              for no key update skip locked
            )
        )
    );
  end if;
  if cardinality(v_mine) < jsonb_array_length(docs) then
    select jsonb_agg(it order by place) into v_docs
    from jsonb_array_elements(docs) with ordinality as asked (it, place)
    where (it ->> 'id')::uuid = any (v_mine);
    if v_docs is null then
      return holdfast.workflow_write_answers(docs, '{}');
    end if;
  end if;

  with decided as (
    update holdfast.workflow
    set revision = workflow.revision + 1,
        last_write = asked.token,
        updated_at = v_now,
        status = coalesce(asked.status, workflow.status),
        ended_at = case when asked.ended then v_now else workflow.ended_at end,
        output = case when asked.has_output then asked.output else workflow.output end,
        output_notes = case when asked.has_output then asked.output_notes else workflow.output_notes end,
        failed_step = case when asked.has_failure then asked.failed_step else workflow.failed_step end,
        failure = case when asked.has_failure then asked.failure else workflow.failure end
    from jsonb_to_recordset(v_docs) as asked (
      id uuid, revision int, token uuid, status text, ended boolean, has_output boolean, output jsonb,
      output_notes jsonb, has_failure boolean, failed_step text, failure jsonb
    )
    where workflow.id = asked.id and asked.revision = asked.revision + 0
    returning workflow.id, asked.ended and workflow.dispatch_item is not null as dispatched
  )
  select array_agg(id) filter (where dispatched) into v_dispatched from decided;

  update holdfast.workflow_step
  set status = asked.status,
      handler = case asked.queue when 'keep' then workflow_step.handler when 'add' then asked.handler end,
      compensates = case asked.queue when 'add' then asked.compensates else workflow_step.compensates end,
      due_at = case asked.queue when 'keep' then workflow_step.due_at when 'add' then asked.due end,
      ready = case asked.queue when 'keep' then workflow_step.ready when 'add' then asked.due <= v_now else false end,
      scheduled_at = case asked.queue when 'keep' then workflow_step.scheduled_at when 'add' then asked.due end,
      priority = case asked.queue when 'keep' then workflow_step.priority when 'add' then asked.priority end,
      aging = case asked.queue when 'keep' then workflow_step.aging when 'add' then v_aging end,
      rank = case asked.queue when 'keep' then workflow_step.rank
        when 'add' then holdfast.workflow_rank(asked.due, asked.priority, v_aging) end,
      leased_by = case asked.queue when 'keep' then leased_by end,
      leased_at = case asked.queue when 'keep' then leased_at end,
      in_flight = asked.in_flight,
      abort = case asked.queue when 'keep' then workflow_step.abort or asked.abort else false end,
      attempts = asked.attempts,
      compensation_attempts = asked.compensation_attempts,
      outcome = asked.outcome,
      compensation_outcome = asked.compensation_outcome,
      ended_order = asked.ended_order,
      side = asked.side,
      dlq = asked.dlq,
      started_at = case when asked.attempts > 0 then coalesce(started_at, v_now) end,
      ended_at = case when asked.ended then coalesce(ended_at, v_now) end,
      input = case when asked.has_input then asked.input else workflow_step.input end,
      input_notes = case when asked.has_input then asked.input_notes else workflow_step.input_notes end,
      output = case when asked.has_output then asked.output else workflow_step.output end,
      output_notes = case when asked.has_output then asked.output_notes else workflow_step.output_notes end,
      failure = asked.failure
  from (
    select step.*
    from holdfast.workflow_step_changes(v_docs, v_now) as step
    where step.epoch is not null
    offset 0
  ) as asked
  where workflow_step.workflow_id = asked.workflow_id and workflow_step.number = asked.number;
  perform holdfast.add_workflow_rows(v_docs, v_now);
  if v_docs @? '$[*] ? (@.removes_start == true)' then
    -- The first decision about an instance that waited for its start: it begins, or it is cancelled.
    delete from holdfast.workflow_step
    using jsonb_to_recordset(v_docs) as asked (id uuid, removes_start boolean)
    where workflow_id = asked.id and number = -1 and asked.removes_start;
  end if;
  if v_dispatched is not null then
    perform holdfast.end_dispatched_workflows(v_dispatched);
  end if;
  if v_docs @> '[{"ended": true}]' or v_docs @> '[{"status": "DLQ"}]' then
    perform holdfast.wake_results('workflows');
  end if;
  if cardinality(v_mine) = jsonb_array_length(docs) then
    return null;
  end if;
  return holdfast.workflow_write_answers(docs, v_mine);
end
$function$
;

CREATE TRIGGER audit_is_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON holdfast.audit FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_audit_change();

CREATE TRIGGER audit_rows_stay BEFORE DELETE OR UPDATE ON holdfast.audit FOR EACH ROW EXECUTE FUNCTION holdfast.refuse_audit_change();

CREATE TRIGGER audit_is_append_only BEFORE TRUNCATE ON holdfast.audit_default FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_audit_change();

CREATE TRIGGER command_queue_has_functions AFTER INSERT ON holdfast.command_queue FOR EACH ROW EXECUTE FUNCTION holdfast.make_functions_of_new_queue();

CREATE TRIGGER dispatch_config_is_carried_out AFTER UPDATE ON holdfast.dispatch_config FOR EACH ROW EXECUTE FUNCTION holdfast.carry_out_dispatch_config();

CREATE TRIGGER dispatch_config_is_sound BEFORE INSERT OR UPDATE ON holdfast.dispatch_config FOR EACH ROW EXECUTE FUNCTION holdfast.check_dispatch_config();

CREATE TRIGGER dispatch_item_is_counted_in AFTER INSERT ON holdfast.dispatch_item REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION holdfast.tally_dispatch_items();

CREATE TRIGGER dispatch_item_is_counted_out AFTER DELETE ON holdfast.dispatch_item REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION holdfast.tally_dispatch_items();

CREATE TRIGGER dispatch_item_is_counted_over AFTER UPDATE ON holdfast.dispatch_item REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION holdfast.tally_dispatch_items();

CREATE CONSTRAINT TRIGGER process_inbox_in_order AFTER INSERT ON holdfast.process_inbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.name !~~ '@%'::text)) EXECUTE FUNCTION holdfast.place_response();

comment on function holdfast.absence_counts() is 'internal: may change with every release';

comment on function holdfast.add_workflow_rows(docs jsonb, v_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.admit_dispatched(ids uuid[]) is 'internal: may change with every release';

comment on function holdfast.admit_dispatched_roots(ids uuid[]) is 'internal: may change with every release';

comment on function holdfast.adopt_messages(p_domain text, p_now timestamp with time zone, ids bigint[], messages jsonb[], headers jsonb[]) is 'internal: may change with every release';

comment on function holdfast.apply_dispatch_checks(p_type text, findings jsonb) is 'internal: may change with every release';

comment on function holdfast.apply_late_response(p_id uuid, p_after integer, p_name text, p_response_id text, p_data jsonb, p_notes jsonb, p_projection jsonb, p_projection_notes jsonb) is 'internal: may change with every release';

comment on function holdfast.apply_managed(p_queue text, writes jsonb) is 'internal: may change with every release';

comment on function holdfast.await_results(p_model text) is 'internal: may change with every release';

comment on function holdfast.bucket_lead(bucket holdfast.rate_limit_bucket, rate double precision, burst integer, at timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.call_id(p_name text, p_occurrence integer) is 'internal: may change with every release';

comment on function holdfast.call_off_command(p_domain text, p_command_id uuid, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.call_off_managed(p_id uuid, p_generation integer, p_actor text) is 'internal: may change with every release';

comment on function holdfast.cancel_command(p_domain text, p_command_id uuid, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.cancel_process(p_id uuid, p_mode text, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.carry_out_dispatch_config() is 'internal: may change with every release';

comment on function holdfast.check_apart(p_function text, p_options jsonb, p_names text[]) is 'internal: may change with every release';

comment on function holdfast.check_dispatch_config() is 'internal: may change with every release';

comment on function holdfast.check_options(p_function text, p_options jsonb, p_known text[]) is 'internal: may change with every release';

comment on function holdfast.check_payload(p_what text, p_value jsonb) is 'internal: may change with every release';

comment on function holdfast.chore_claim(lanes text[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer, OUT items json, OUT next_due_ms double precision) is 'internal: may change with every release';

comment on function holdfast.claim_dispatch_cycles(lanes text[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer, OUT items json, OUT next_due_ms double precision) is 'internal: may change with every release';

comment on function holdfast.claim_dispatch_items(request jsonb, from_due timestamp with time zone, from_seq bigint, slots double precision[]) is 'internal: may change with every release';

comment on function holdfast.claim_inbox_groups(lane_types text[], lane_froms double precision[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer) is 'internal: may change with every release';

comment on function holdfast.claim_limited_processes(p_type text, p_version integer, p_limit integer, p_most integer, spare_leased boolean) is 'internal: may change with every release';

comment on function holdfast.claim_processes(lane_types text[], lane_versions integer[], lane_limits integer[], lane_froms double precision[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer) is 'internal: may change with every release';

comment on function holdfast.claim_replies(p_queue text, p_domain text, p_from double precision, p_most integer, p_lease_ms integer, p_spare_leased boolean, p_ceiling_ms integer) is 'internal: may change with every release';

comment on function holdfast.claim_workflow_steps(handlers text[], worker text, most integer, p_lease_ms integer, p_beat_ms integer, spare_leased boolean, ceiling_ms integer) is 'internal: may change with every release';

comment on function holdfast.clean_up_lost_claims(p_age interval, most integer) is 'internal: may change with every release';

comment on function holdfast.clean_up_workflows(statuses text[], before timestamp with time zone, most integer) is 'internal: may change with every release';

comment on function holdfast.clear_junk(p_queue text, p_domain text, types text[], p_now timestamp with time zone, p_window integer) is 'internal: may change with every release';

comment on function holdfast.clear_typeless(p_queue text, p_now timestamp with time zone, p_most integer) is 'internal: may change with every release';

comment on function holdfast.close_batches(most integer) is 'internal: may change with every release';

comment on function holdfast.command_ids_in(p_domain text, messages jsonb[]) is 'internal: may change with every release';

comment on function holdfast.command_types(p_domain text) is 'internal: may change with every release';

comment on function holdfast.compact_dispatch_tallies() is 'internal: may change with every release';

comment on function holdfast.complete_compensations(p_id uuid, p_step text, p_given jsonb, p_how text, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.complete_process(p_id uuid, p_epoch integer, p_responses integer, projection jsonb, p_actor text, p_reason text, p_overrides jsonb) is 'internal: may change with every release';

comment on function holdfast.completed_commands(p_id uuid, p_generation integer, p_before integer) is 'internal: may change with every release';

comment on function holdfast.configure_dispatch(p_type text, changes jsonb, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.configure_process(p_type text, changes jsonb, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.context_hash(context jsonb, notes jsonb) is 'internal: may change with every release';

comment on function holdfast.count_dispatched_ahead(p_type text, p_most integer) is 'internal: may change with every release';

comment on function holdfast.count_dispatched_beginning(p_type text) is 'internal: may change with every release';

comment on function holdfast.count_due_this_minute(p_type text, p_count bigint) is 'internal: may change with every release';

comment on function holdfast.count_processes(filter jsonb) is 'internal: may change with every release';

comment on function holdfast.count_releasable_items(p_type text, p_most integer) is 'internal: may change with every release';

comment on function holdfast.count_slots(p_type text, p_limit integer) is 'internal: may change with every release';

comment on function holdfast.deadline_option(p_function text, p_options jsonb) is 'internal: may change with every release';

comment on function holdfast.decide(id uuid, step text, decision text, by jsonb) is 'Confirms or rejects a human step of a workflow.';

comment on function holdfast.dispatch_fingerprint(code text, message text) is 'internal: may change with every release';

comment on function holdfast.dispatch_gate(p_type text) is 'internal: may change with every release';

comment on function holdfast.dispatch_tolerance(config holdfast.dispatch_config) is 'internal: may change with every release';

comment on function holdfast.dispatched_starts(p_type text, names text[]) is 'internal: may change with every release';

comment on function holdfast.due_dispatch_checks(p_type text) is 'internal: may change with every release';

comment on function holdfast.duration_option(p_function text, p_name text, p_value text, p_type text) is 'internal: may change with every release';

comment on function holdfast.effective_burst(tickets_per_second double precision, burst integer) is 'internal: may change with every release';

comment on function holdfast.end_dispatched(item_types text[], item_ids text[], execution_ids text[], outcomes text[], codes text[], messages text[]) is 'internal: may change with every release';

comment on function holdfast.end_dispatched_processes(ids uuid[]) is 'internal: may change with every release';

comment on function holdfast.end_dispatched_workflows(ids uuid[]) is 'internal: may change with every release';

comment on function holdfast.ensure_audit_partitions(weeks_ahead integer) is 'internal: may change with every release';

comment on function holdfast.execution_id(item_type text, item_id text, failed_executions integer) is 'internal: may change with every release';

comment on function holdfast.expire_commands(p_queue text, p_domain text, ids bigint[], reads integer[]) is 'internal: may change with every release';

comment on function holdfast.expire_processes(ids uuid[], epochs integer[], OUT ended integer) is 'internal: may change with every release';

comment on function holdfast.expire_workflow_steps(ids uuid[], numbers smallint[], epochs integer[], OUT ended integer) is 'internal: may change with every release';

comment on function holdfast.extend_chores(ids text[], epochs integer[], lease_ms integer, OUT extended json, OUT lost json) is 'internal: may change with every release';

comment on function holdfast.extend_commands(p_queue text, ids bigint[], reads integer[], lease_ms integer) is 'internal: may change with every release';

comment on function holdfast.extend_dispatch_cycles(ids text[], epochs integer[], lease_ms integer, OUT extended json, OUT lost json) is 'internal: may change with every release';

comment on function holdfast.extend_inbox(ids uuid[], epochs integer[], lease_ms integer, OUT extended json, OUT lost json) is 'internal: may change with every release';

comment on function holdfast.extend_processes(ids uuid[], epochs integer[], lease_ms integer, OUT extended json, OUT lost json) is 'internal: may change with every release';

comment on function holdfast.extend_workflow_steps(ids uuid[], numbers smallint[], epochs integer[], worker text, own_ms integer, lease_ms integer, OUT extended json, OUT lost json) is 'internal: may change with every release';

comment on function holdfast.fail_dispatch_items(failures jsonb) is 'internal: may change with every release';

comment on function holdfast.fail_first_due(p_type text, p_epoch integer, from_due timestamp with time zone, from_seq bigint, p_code text, p_message text) is 'internal: may change with every release';

comment on function holdfast.failed_compensations(p_id uuid, p_generation integer) is 'internal: may change with every release';

comment on function holdfast.failed_step(p_id uuid, p_generation integer) is 'internal: may change with every release';

comment on function holdfast.find_commands(filter jsonb) is 'internal: may change with every release';

comment on function holdfast.find_processes(filter jsonb) is 'internal: may change with every release';

comment on function holdfast.finish_answers(v_table text, p_domain text, writes jsonb, mine bigint[]) is 'internal: may change with every release';

comment on function holdfast.finish_commands(p_queue text, p_domain text, writes jsonb) is 'internal: may change with every release';

comment on function holdfast.finish_dispatch_cycle(p_type text, p_epoch integer, p_interval_ms double precision, p_rest_ms double precision, p_error text) is 'internal: may change with every release';

comment on function holdfast.finish_inbox_group(p_head uuid, p_epoch integer, p_handed uuid[], p_refused jsonb, p_again_ms integer) is 'internal: may change with every release';

comment on function holdfast.fitting_processes(filter jsonb, most integer) is 'internal: may change with every release';

comment on function holdfast.flush_managed_starts(starts jsonb) is 'internal: may change with every release';

comment on function holdfast.flush_schedule(request jsonb) is 'internal: may change with every release';

comment on function holdfast.flush_sends(request jsonb) is 'internal: may change with every release';

comment on function holdfast.flush_starts(starts jsonb) is 'internal: may change with every release';

comment on function holdfast.fold_batch_tallies(p_batches uuid[], p_taken bigint[], p_most integer) is 'internal: may change with every release';

comment on function holdfast.fold_idle_batches() is 'internal: may change with every release';

comment on function holdfast.forget_lost_claim(p_source text, p_id text, p_epoch integer) is 'internal: may change with every release';

comment on function holdfast.forget_workers() is 'internal: may change with every release';

comment on function holdfast.free_queued_processes(p_type text, p_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.free_unlimited_processes(types text[]) is 'internal: may change with every release';

comment on function holdfast.full_name(p_domain text, p_type text) is 'internal: may change with every release';

comment on function holdfast.give_back_workflow_steps(ids uuid[], numbers smallint[], epochs integer[], freshness boolean[]) is 'internal: may change with every release';

comment on function holdfast.grant_runtime(role_name text) is 'Gives a role the rights that senders and workers need.';

comment on function holdfast.has_dispatch_worker(p_engine text, p_exec_type text) is 'internal: may change with every release';

comment on function holdfast.hold_command(p_queue text, p_msg_id bigint, p_read_ct integer) is 'internal: may change with every release';

comment on function holdfast.hold_dispatch_cycle(p_type text, p_epoch integer) is 'internal: may change with every release';

comment on function holdfast.hold_dispatched(p_type text, p_engine text) is 'internal: may change with every release';

comment on function holdfast.hold_process(p_id uuid, p_epoch integer) is 'internal: may change with every release';

comment on function holdfast.inbox_names(p_type text, p_ref text) is 'internal: may change with every release';

comment on function holdfast.is_absent(seen_at timestamp with time zone, age interval) is 'internal: may change with every release';

comment on function holdfast.is_between_attempts(p_domain text, p_command_id text, p_read_ct integer) is 'internal: may change with every release';

comment on function holdfast.is_dispatch_paused(item_type text) is 'internal: may change with every release';

comment on function holdfast.is_known_subject(p_kind text, p_name text) is 'internal: may change with every release';

comment on function holdfast.is_paused(subjects text[]) is 'internal: may change with every release';

comment on function holdfast.item_of_execution(p_type text, p_execution text) is 'internal: may change with every release';

comment on function holdfast.join_batches(p_domain text, members uuid[], batches uuid[]) is 'internal: may change with every release';

comment on function holdfast.keyed_id(p_model text, p_domain text, p_type text, p_key text) is 'internal: may change with every release';

comment on function holdfast.known_replies(asked jsonb) is 'internal: may change with every release';

comment on function holdfast.last_seen(p_model text, p_name text) is 'internal: may change with every release';

comment on function holdfast.lease_inbox_group(p_type text, p_names text[], p_worker text, p_now timestamp with time zone, p_lease_ms integer) is 'internal: may change with every release';

comment on function holdfast.lease_parts(p_table text, p_keys text[], p_types text[], p_held text, OUT arguments text, OUT asked text, OUT matches text, OUT id text, OUT asked_id text, OUT free text, OUT chosen text) is 'internal: may change with every release';

comment on function holdfast.lease_processes(ids uuid[], worker text, lease_ms integer) is 'internal: may change with every release';

comment on function holdfast.leased_processes(types text[]) is 'internal: may change with every release';

comment on function holdfast.leave_batches(p_domain text, ids uuid[], p_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.leave_batches(p_domain text, p_now timestamp with time zone, writes jsonb) is 'internal: may change with every release';

comment on function holdfast.load_workflows(ids uuid[]) is 'internal: may change with every release';

comment on function holdfast.lock_due_items(p_type text, from_due timestamp with time zone, from_seq bigint, p_until timestamp with time zone, p_most integer, OUT ids text[], OUT last_due timestamp with time zone, OUT last_seq bigint) is 'internal: may change with every release';

comment on function holdfast.lock_troubled_process(p_id uuid) is 'internal: may change with every release';

comment on function holdfast.lost_claim_json(lost_alone integer, lost_shared integer, counted boolean, interrupted boolean, first_to_try boolean) is 'internal: may change with every release';

comment on function holdfast.make_bucket(key text) is 'internal: may change with every release';

comment on function holdfast.make_claim_function(p_name text, p_table text, p_key text) is 'internal: may change with every release';

comment on function holdfast.make_ending_function(p_verb text, p_name text, p_table text, p_keys text[], p_types text[], p_lane text, p_topic text, p_changes text, p_beside text) is 'internal: may change with every release';

comment on function holdfast.make_extend_function(p_name text, p_table text, p_keys text[], p_types text[], p_held text, p_more text, p_changes text, p_lease_ms text) is 'internal: may change with every release';

comment on function holdfast.make_function(p_name text, p_arguments text, p_body text, p_settings text) is 'internal: may change with every release';

comment on function holdfast.make_functions_of_new_queue() is 'internal: may change with every release';

comment on function holdfast.make_oldest_function(p_name text, p_table text, p_matches text, p_lanes text, p_due text, p_since text, p_order text) is 'internal: may change with every release';

comment on function holdfast.make_queue_functions(p_queue text) is 'internal: may change with every release';

comment on function holdfast.managed_processes(asked jsonb) is 'internal: may change with every release';

comment on function holdfast.may_reply(p_domain text, p_queue text) is 'internal: may change with every release';

comment on function holdfast.meet_scheduled(p_type text, it jsonb, p_version integer, p_checked boolean, p_replace boolean, p_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.most_bytes(p_value jsonb) is 'internal: may change with every release';

comment on function holdfast.new_dispatch_starts(config holdfast.dispatch_config, p_count integer) is 'internal: may change with every release';

comment on function holdfast.newest_definition(p_type text) is 'internal: may change with every release';

comment on function holdfast.next_execution_id(item_type text, item_id text, failed_executions integer, last_id text) is 'internal: may change with every release';

comment on function holdfast.note_beat() is 'internal: may change with every release';

comment on function holdfast.note_begun_claim(p_source text, p_id text, p_epoch integer, p_state text) is 'internal: may change with every release';

comment on function holdfast.note_dispatch(p_type text, p_engine text, settings jsonb) is 'internal: may change with every release';

comment on function holdfast.note_dispatch_failures(config holdfast.dispatch_config, p_failed integer, p_began integer, p_reason text) is 'internal: may change with every release';

comment on function holdfast.note_exec_type(p_type text, p_exec_type text) is 'internal: may change with every release';

comment on function holdfast.note_interrupted_claims(p_source text, ids text[], epochs integer[]) is 'internal: may change with every release';

comment on function holdfast.note_missing_handlers() is 'internal: may change with every release';

comment on function holdfast.note_trouble(p_domain text, p_now timestamp with time zone, writes jsonb) is 'internal: may change with every release';

comment on function holdfast.note_worker(p_worker text, p_has jsonb) is 'internal: may change with every release';

comment on function holdfast.note_worker_stopped(p_worker text) is 'internal: may change with every release';

comment on function holdfast.now() is 'The clock of the installation.';

comment on function holdfast.oldest_chores(lanes text[], OUT seconds double precision) is 'internal: may change with every release';

comment on function holdfast.oldest_command_seconds(p_queue text, types text[]) is 'internal: may change with every release';

comment on function holdfast.oldest_dispatch_cycles(lanes text[], OUT seconds double precision) is 'internal: may change with every release';

comment on function holdfast.oldest_inbox(lanes text[], OUT seconds double precision) is 'internal: may change with every release';

comment on function holdfast.oldest_processes(lanes text[], OUT seconds double precision) is 'internal: may change with every release';

comment on function holdfast.oldest_workflow_steps(lanes text[], OUT seconds double precision) is 'internal: may change with every release';

comment on function holdfast.open_messages(p_domain text, p_worker text, p_now timestamp with time zone, ids bigint[], reads integer[], messages jsonb[], headers jsonb[], OUT items json, OUT strays bigint[], OUT malformed bigint[]) is 'internal: may change with every release';

comment on function holdfast.open_replies(p_domain text, ids bigint[], reads integer[], messages jsonb[], headers jsonb[], OUT items json, OUT asked jsonb, OUT unknown json, OUT strays bigint[], OUT malformed bigint[], OUT paused bigint[]) is 'internal: may change with every release';

comment on function holdfast.operate_commands(p_action text, p_domain text, ids uuid[], p_actor text, p_reason text, p_data jsonb, p_notes jsonb, p_version integer) is 'internal: may change with every release';

comment on function holdfast.operate_dispatch_items(p_operation text, p_type text, ids text[], change jsonb, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.operate_processes(p_action text, p_type text, refs text[], p_actor text, p_reason text, options jsonb) is 'internal: may change with every release';

comment on function holdfast.option_of(p_function text, p_options jsonb, p_name text, p_kind text) is 'internal: may change with every release';

comment on function holdfast.own_schema() is 'internal: may change with every release';

comment on function holdfast.patch_ended(writes jsonb, v_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.payload_bytes() is 'internal: may change with every release';

comment on function holdfast.place_response() is 'internal: may change with every release';

comment on function holdfast.planner_looped() is 'internal: may change with every release';

comment on function holdfast.post_responses(responses jsonb) is 'internal: may change with every release';

comment on function holdfast.problem_of_message(message jsonb, header jsonb, p_limit integer) is 'internal: may change with every release';

comment on function holdfast.process_before(p_id uuid) is 'internal: may change with every release';

comment on function holdfast.process_can(p_id uuid, p_generation integer) is 'internal: may change with every release';

comment on function holdfast.process_candidates(filter jsonb, types text[], since timestamp with time zone, until timestamp with time zone, most integer) is 'internal: may change with every release';

comment on function holdfast.process_fits(filter jsonb, key text, batch_id uuid, parent_id uuid, attributes jsonb, status text, leased_at timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.process_goes_on(p_id uuid, p_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.process_id_of(p_type text, p_ref text) is 'internal: may change with every release';

comment on function holdfast.process_is_unwinding(p_id uuid, p_generation integer) is 'internal: may change with every release';

comment on function holdfast.process_news(ids uuid[], heard integer[]) is 'internal: may change with every release';

comment on function holdfast.process_types(p_domain text, p_type text) is 'internal: may change with every release';

comment on function holdfast.process_write_answers(writes jsonb, mine uuid[]) is 'internal: may change with every release';

comment on function holdfast.processes_ended(ids uuid[]) is 'internal: may change with every release';

comment on function holdfast.protect_audit_partition(partition regclass) is 'internal: may change with every release';

comment on function holdfast.queue_exists(p_queue text) is 'internal: may change with every release';

comment on function holdfast.queue_instance_starts(ids uuid[], definition_ids integer[], starts timestamp with time zone[], unchecked boolean[]) is 'internal: may change with every release';

comment on function holdfast.read_managed(p_queue text, asked jsonb) is 'internal: may change with every release';

comment on function holdfast.read_process_history(p_id uuid, p_generation integer, p_after integer, p_bytes integer) is 'internal: may change with every release';

comment on function holdfast.read_process_responses(p_id uuid, p_after integer, p_bytes integer) is 'internal: may change with every release';

comment on function holdfast.receive_commands(queue text, domain text, lane_types text[], lane_froms double precision[], worker text, most integer, lease_ms integer, spare_leased boolean, ceiling_ms integer) is 'internal: may change with every release';

comment on function holdfast.record_dispatch_starts(p_type text, p_batch uuid, started text[], failures jsonb, p_claimed integer) is 'internal: may change with every release';

comment on function holdfast.record_operation(p_id uuid, p_generation integer, p_epoch integer, p_kind text, p_seen integer, p_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.record_replies(p_queue text, writes jsonb) is 'internal: may change with every release';

comment on function holdfast.record_resolved(p_id uuid, p_generation integer, p_epoch integer, p_name text, p_occurrence integer, options jsonb, p_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.refuse_audit_change() is 'internal: may change with every release';

comment on function holdfast.refuse_late_processes(config holdfast.dispatch_config, ids uuid[]) is 'internal: may change with every release';

comment on function holdfast.refuse_name(p_what text, p_domain text, p_type text, p_known_by text) is 'internal: may change with every release';

comment on function holdfast.refuse_option(p_function text, p_name text, p_problem text) is 'internal: may change with every release';

comment on function holdfast.release_chores(ids text[], epochs integer[], OUT ended integer) is 'internal: may change with every release';

comment on function holdfast.release_commands(p_queue text, ids bigint[], reads integer[]) is 'internal: may change with every release';

comment on function holdfast.release_dispatch_cycles(ids text[], epochs integer[], OUT ended integer) is 'internal: may change with every release';

comment on function holdfast.release_dispatch_items(request jsonb, from_due timestamp with time zone, from_seq bigint, slots double precision[]) is 'internal: may change with every release';

comment on function holdfast.release_inbox(ids uuid[], epochs integer[]) is 'internal: may change with every release';

comment on function holdfast.release_processes(ids uuid[], epochs integer[], OUT ended integer) is 'internal: may change with every release';

comment on function holdfast.remove_idle_buckets() is 'internal: may change with every release';

comment on function holdfast.remove_replies(p_queue text, ids bigint[]) is 'internal: may change with every release';

comment on function holdfast.replies_are_lost(p_queue text, p_messages jsonb) is 'internal: may change with every release';

comment on function holdfast.report_dispatch_ends(p_type text, ends jsonb) is 'internal: may change with every release';

comment on function holdfast.report_end(item_type text, execution_id text, status text, error_code text, error_message text) is 'Reports the end of an execution that dispatch began elsewhere.';

comment on function holdfast.reserve_slots(keys text[], counts integer[], max_waits_ms double precision[], patient boolean) is 'internal: may change with every release';

comment on function holdfast.resolve_process(p_id uuid, p_actor text, p_reason text, options jsonb) is 'internal: may change with every release';

comment on function holdfast.respond(domain text, type text, process text, name text, data jsonb, options jsonb) is 'Tells a process something that it may wait for.';

comment on function holdfast.respond_processes(responses jsonb) is 'internal: may change with every release';

comment on function holdfast.rest_processes(writes jsonb, v_now timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.resume_dispatch(p_type text, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.resume_process(p_id uuid, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.retry_process(p_id uuid, p_actor text, p_reason text, options jsonb) is 'internal: may change with every release';

comment on function holdfast.retry_workflow_step(p_id uuid, p_step text, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.return_reply(p_queue text, p_msg_id bigint, p_read_ct integer, p_delay_ms double precision) is 'internal: may change with every release';

comment on function holdfast.schedule(domain text, type text, key text, context jsonb, start_at timestamp with time zone, options jsonb) is 'Schedules an item of dispatch.';

comment on function holdfast.schedule_items(request jsonb) is 'internal: may change with every release';

comment on function holdfast.send(domain text, type text, data jsonb, options jsonb) is 'Sends a command.';

comment on function holdfast.send_commands(request jsonb) is 'internal: may change with every release';

comment on function holdfast.send_for_processes(writes jsonb) is 'internal: may change with every release';

comment on function holdfast.send_replies(replies jsonb) is 'internal: may change with every release';

comment on function holdfast.set_aside_workflow_steps(handlers text[], paused integer[], p_window integer) is 'internal: may change with every release';

comment on function holdfast.set_dispatch_config(p_type text, changes jsonb) is 'internal: may change with every release';

comment on function holdfast.set_workflow_aging(p_aging real, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.shown_priority(priority integer, aging real, scheduled timestamp with time zone, at timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.slots_lock(p_type text) is 'internal: may change with every release';

comment on function holdfast.start(domain text, type text, input jsonb, options jsonb) is 'Starts a process, or an instance of a workflow.';

comment on function holdfast.start_dispatched(request jsonb, config holdfast.dispatch_config, ids text[], slots double precision[], p_now timestamp with time zone, taken jsonb) is 'internal: may change with every release';

comment on function holdfast.start_managed(starts jsonb) is 'internal: may change with every release';

comment on function holdfast.start_option(p_function text, p_options jsonb) is 'internal: may change with every release';

comment on function holdfast.start_process_from_sql(p_name text, p_version integer, p_input jsonb, options jsonb) is 'internal: may change with every release';

comment on function holdfast.start_processes(starts jsonb) is 'internal: may change with every release';

comment on function holdfast.start_workflow_from_sql(p_name text, p_input jsonb, options jsonb) is 'internal: may change with every release';

comment on function holdfast.start_workflow_instances(docs jsonb) is 'internal: may change with every release';

comment on function holdfast.store_checked_state(p_id uuid, p_epoch integer, p_state jsonb, p_notes jsonb, p_deadline_ms double precision, p_deadline_in_ms double precision) is 'internal: may change with every release';

comment on function holdfast.sweep_unhandled(p_domain text, p_age interval) is 'internal: may change with every release';

comment on function holdfast.take_back_workflow_steps(paused integer[]) is 'internal: may change with every release';

comment on function holdfast.taken_executions(config holdfast.dispatch_config, ids text[], p_exec_type text) is 'internal: may change with every release';

comment on function holdfast.tally_dispatch_items() is 'internal: may change with every release';

comment on function holdfast.time_option(p_function text, p_name text, p_value text, p_type text) is 'internal: may change with every release';

comment on function holdfast.troubled_command(p_id uuid, p_generation integer) is 'internal: may change with every release';

comment on function holdfast.unhold_dispatched(p_type text, p_engine text) is 'internal: may change with every release';

comment on function holdfast.unresolved_calls(p_id uuid, p_generation integer) is 'internal: may change with every release';

comment on function holdfast.uuid_or_null(p_text text) is 'internal: may change with every release';

comment on function holdfast.wake(topic text) is 'internal: may change with every release';

comment on function holdfast.wake_bucket_of(topic text) is 'internal: may change with every release';

comment on function holdfast.wake_channel() is 'internal: may change with every release';

comment on function holdfast.wake_results(p_model text) is 'internal: may change with every release';

comment on function holdfast.weigh_lost_claims(p_source text, ids text[], epochs integer[], progresses text[]) is 'internal: may change with every release';

comment on function holdfast.weigh_lost_commands(p_queue text, p_domain text, items json) is 'internal: may change with every release';

comment on function holdfast.weigh_lost_processes(items json, lost uuid[]) is 'internal: may change with every release';

comment on function holdfast.weigh_lost_steps(items json, lost uuid[], lost_numbers smallint[]) is 'internal: may change with every release';

comment on function holdfast.withdraw_remotes(p_id uuid, p_type text, p_actor text, p_reason text) is 'internal: may change with every release';

comment on function holdfast.workflow_aging() is 'internal: may change with every release';

comment on function holdfast.workflow_rank(scheduled timestamp with time zone, priority integer, aging real) is 'internal: may change with every release';

comment on function holdfast.workflow_step_changes(docs jsonb, at timestamp with time zone) is 'internal: may change with every release';

comment on function holdfast.workflow_write_answers(docs jsonb, mine uuid[]) is 'internal: may change with every release';

comment on function holdfast.write_processes(writes jsonb) is 'internal: may change with every release';

comment on function holdfast.write_workflow_changes(docs jsonb) is 'internal: may change with every release';
