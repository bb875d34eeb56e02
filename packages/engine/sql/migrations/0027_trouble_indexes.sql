-- release: 1
-- online
--
-- A list of what needs a person is newest first, whatever it is narrowed to: each index ends with that order. `place` tells two of
-- the same moment apart; it is the expression that the view has for it.

create index concurrently if not exists command_trouble_newest
  on holdfast.command_trouble (since, ((command_id::text || '/' || domain) collate "C"));
create index concurrently if not exists command_trouble_newest_by_domain
  on holdfast.command_trouble (domain, since, ((command_id::text || '/' || domain) collate "C"));
create index concurrently if not exists command_trouble_newest_by_type
  on holdfast.command_trouble (type, since, ((command_id::text || '/' || domain) collate "C"));
create index concurrently if not exists command_trouble_newest_by_code
  on holdfast.command_trouble (error_code, since, ((command_id::text || '/' || domain) collate "C"));
create index concurrently if not exists command_trouble_newest_by_fingerprint
  on holdfast.command_trouble (fingerprint, since, ((command_id::text || '/' || domain) collate "C"));

create index concurrently if not exists process_trouble_newest
  on holdfast.process_trouble (since, (id::text collate "C"));
create index concurrently if not exists process_trouble_newest_by_domain
  on holdfast.process_trouble ((split_part(type, '/', 1)), since, (id::text collate "C"));
create index concurrently if not exists process_trouble_newest_by_type
  on holdfast.process_trouble ((substr(type, strpos(type, '/') + 1)), since, (id::text collate "C"));
create index concurrently if not exists process_trouble_newest_by_step
  on holdfast.process_trouble (step, since, (id::text collate "C"));
create index concurrently if not exists process_trouble_newest_by_code
  on holdfast.process_trouble (error_code, since, (id::text collate "C"));
create index concurrently if not exists process_trouble_newest_by_fingerprint
  on holdfast.process_trouble (fingerprint, since, (id::text collate "C"));

create index concurrently if not exists workflow_dead_letter_newest
  on holdfast.workflow_dead_letter (created_at, (id::text collate "C"));
create index concurrently if not exists workflow_dead_letter_newest_by_domain
  on holdfast.workflow_dead_letter ((case when strpos(workflow_name, '/') = 0 then 'default' else split_part(workflow_name, '/', 1) end), created_at, (id::text collate "C"));
create index concurrently if not exists workflow_dead_letter_newest_by_type
  on holdfast.workflow_dead_letter ((substr(workflow_name, strpos(workflow_name, '/') + 1)), created_at, (id::text collate "C"));
create index concurrently if not exists workflow_dead_letter_newest_by_step
  on holdfast.workflow_dead_letter (step, created_at, (id::text collate "C"));
create index concurrently if not exists workflow_dead_letter_newest_by_code
  on holdfast.workflow_dead_letter ((failure ->> 'code'), created_at, (id::text collate "C"));
create index concurrently if not exists workflow_dead_letter_newest_by_fingerprint
  on holdfast.workflow_dead_letter (fingerprint, created_at, (id::text collate "C"));

create index concurrently if not exists dispatch_dead_letter_newest
  on holdfast.dispatch_dead_letter (since, ((item_type || '/' || item_id) collate "C"));
create index concurrently if not exists dispatch_dead_letter_newest_by_domain
  on holdfast.dispatch_dead_letter ((case when strpos(item_type, '/') = 0 then 'default' else split_part(item_type, '/', 1) end collate "default"), since, ((item_type || '/' || item_id) collate "C"));
create index concurrently if not exists dispatch_dead_letter_newest_by_type
  on holdfast.dispatch_dead_letter ((substr(item_type, strpos(item_type, '/') + 1) collate "default"), since, ((item_type || '/' || item_id) collate "C"));
create index concurrently if not exists dispatch_dead_letter_newest_by_code
  on holdfast.dispatch_dead_letter (error_code, since, ((item_type || '/' || item_id) collate "C"));
create index concurrently if not exists dispatch_dead_letter_newest_by_fingerprint
  on holdfast.dispatch_dead_letter (fingerprint, since, ((item_type || '/' || item_id) collate "C"));

-- Items are found by their id alone too; the primary key begins with their type.
create index concurrently if not exists dispatch_dead_letter_by_item
  on holdfast.dispatch_dead_letter ((item_id collate "default"));

drop index concurrently if exists holdfast.command_trouble_by_type;
drop index concurrently if exists holdfast.command_trouble_by_fingerprint;
drop index concurrently if exists holdfast.process_trouble_by_type;
drop index concurrently if exists holdfast.process_trouble_by_fingerprint;
drop index concurrently if exists holdfast.workflow_dead_letter_by_time;
drop index concurrently if exists holdfast.workflow_dead_letter_by_fingerprint;
drop index concurrently if exists holdfast.dispatch_dead_letter_by_time;
drop index concurrently if exists holdfast.dispatch_dead_letter_by_fingerprint;
