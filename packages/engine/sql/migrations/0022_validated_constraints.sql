-- release: 1
-- online
--
-- Constraints that were added without a look at the rows that were there. Validating them locks out nobody.
alter table holdfast.process_history validate constraint process_history_kind_check;
alter table holdfast.command validate constraint command_inquiry_is_known;
alter table holdfast.command validate constraint command_effect_is_known;
