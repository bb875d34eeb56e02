-- release: 1
--
-- One place for work that needs a person: the view `holdfast.trouble` (functions/trouble.sql) over what the models keep.

-- The step that failed, as operators name it: `pay`, or `pay#2` where the name is used again. On the row, so that a list by step
-- reads no histories.
alter table holdfast.process_trouble add column step text;
update holdfast.process_trouble as trouble
set step = coalesce(detail.waiting_for, (
  select history.name || case when history.occurrence > 1 then '#' || history.occurrence else '' end
  from holdfast.process_history as history
  where history.process_id = process.id and history.generation = process.generation and history.status = 'FAILED'
  order by history.seq desc
  limit 1
))
from holdfast.process
join holdfast.process_detail as detail on detail.id = process.id
where process.id = trouble.id;

-- Which person takes care of which trouble. A row belongs to the failure of that moment (`since`): once the work goes on, or fails
-- again, the view no longer shows it, and the next assignment removes it. No model has to delete it.
create table holdfast.trouble_assignment (
  model text not null check (model in ('commands', 'processes', 'workflows', 'dispatch')),
  place text collate "C" not null,
  since timestamptz not null,
  assigned_to text not null,
  assigned_at timestamptz not null,
  primary key (model, place)
);
create index trouble_assignment_by_person on holdfast.trouble_assignment (assigned_to);
