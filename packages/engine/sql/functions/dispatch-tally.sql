-- revision: 4
-- after: kernel
--
-- Counts the items of dispatch (D-12). For each statement that changes items, a trigger inserts one row per status and minute with the
-- difference; a chore adds them up. Depth and forecast are sums over few rows, whatever the number of items. What must not break: no
-- counter is updated in place, because all workers would wait for its row.

create or replace function holdfast.tally_dispatch_items()
returns trigger
language plpgsql
as $$
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
$$;

create or replace trigger dispatch_item_is_counted_in
after insert on holdfast.dispatch_item
referencing new table as added
for each statement execute function holdfast.tally_dispatch_items();

create or replace trigger dispatch_item_is_counted_over
after update on holdfast.dispatch_item
referencing old table as removed new table as added
for each statement execute function holdfast.tally_dispatch_items();

create or replace trigger dispatch_item_is_counted_out
after delete on holdfast.dispatch_item
referencing old table as removed
for each statement execute function holdfast.tally_dispatch_items();

-- Items from before anything counted them. The creation of the triggers above locks other writers out until this commits.
insert into holdfast.dispatch_tally (item_type, status, minute, count)
select item_type, status, date_trunc('minute', due_at), count(*)
from holdfast.dispatch_item
where not exists (select from holdfast.dispatch_tally)
group by 1, 2, 3;

-- Adds up the rows that have accumulated. Rows that another transaction has locked or not committed are left for the next time.
create or replace function holdfast.compact_dispatch_tallies()
returns void
language plpgsql
as $$
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
$$;

-- How many of the items that fall due in this minute are due already. Exact if there are few items before or after the present moment;
-- otherwise in proportion to the time that has passed, because counting would take too long.
-- planner: no seqscan, no bitmapscan
create or replace function holdfast.count_due_this_minute(p_type text, p_count bigint)
returns bigint
language plpgsql
stable
as $$
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
$$;
