-- release: 1
--
-- Choices are written as the API writes them: 'compensate', not 'COMPENSATE'.
alter table holdfast.process_setting drop constraint process_setting_deadline_action_check;
update holdfast.process_setting set deadline_action = lower(deadline_action) where deadline_action is not null;
alter table holdfast.process_setting
  add constraint process_setting_deadline_action_check check (deadline_action in ('tsq', 'compensate', 'fail'));
