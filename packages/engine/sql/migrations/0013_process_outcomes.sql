-- release: 1
-- What became of calls whose outcome nobody knew (K-19, K-20): a person's answer is a record of its own, and the end of a
-- process says whether it left anything to undo.

alter table holdfast.process_history drop constraint process_history_kind_check;
alter table holdfast.process_history add constraint process_history_kind_check
  check (kind in ('STEP', 'TRANSACTION', 'SIDE_EFFECT', 'WAIT', 'EVENT', 'SLEEP', 'COMMAND', 'CHILD', 'COMPENSATION',
    'UNWIND', 'RETRY', 'RESUME', 'RESOLVE')) not valid;

-- Of a process that has ended: whatever it did is undone, or it did nothing. For its parent.
alter table holdfast.process_detail add column undone boolean;
