-- release: 1
--
-- Failures are visible (K-21): what waits for a person keeps the stack of its failure, at most 4 kB.

alter table holdfast.command_trouble add column error_stack text;
alter table holdfast.process_trouble add column error_stack text;
