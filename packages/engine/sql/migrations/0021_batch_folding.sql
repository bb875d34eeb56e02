-- release: 1
--
-- Tallies of batches that items only join are folded every minute; all others are folded when the batch is looked at for closing.
insert into holdfast.chore (name, every, due_at)
values ('batch_tallies', interval '1 minute', statement_timestamp());
