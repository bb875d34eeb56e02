-- release: 1
--
-- The order of responses (K-25), and continueAsNew at a flat cost (P-24).

-- Responses are handed over in this order, process by process. Taken when the row is inserted, and once more when its
-- transaction commits (functions/processes-inbox.sql): transactions of one caller may overlap.
create sequence holdfast.process_inbox_place;
alter table holdfast.process_inbox add column place bigint not null default nextval('holdfast.process_inbox_place');
create index process_inbox_of on holdfast.process_inbox (type, process_ref);
drop function if exists holdfast.claim_inbox(text[], float8[], text, int, int, boolean, int);

-- Responses that events of earlier generations have asked for: those are kept for the next event, others are in the state.
alter table holdfast.process_detail add column state_events jsonb;
