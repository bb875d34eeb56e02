-- revision: 2
-- after: kernel
--
-- Reads the input of an execution page by page: its history and its responses. Claims call these functions for the first page,
-- executions for the next ones. What must not break: a page has at least one row if there is one, at most about the given number of
-- bytes (K-23), and rows are in the order of their numbers.

-- The largest possible size of a value as JSON. A compressed value is up to about a hundred times as long; it is not read for this.
create or replace function holdfast.most_bytes(p_value jsonb)
returns int
language sql
immutable
parallel safe
begin atomic
  select coalesce(pg_column_size(p_value) * case when pg_column_compression(p_value) is null then 1 else 100 end, 0);
end;

-- The next page of a history, after event number `p_after`; at least one event if there is one. Row by row, so that each value is
-- measured once and nothing behind the page is read.
create or replace function holdfast.read_process_history(p_id uuid, p_generation int, p_after int, p_bytes int)
returns json
language plpgsql
stable
as $$
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
$$;

-- The same for the responses that a claim would return.
create or replace function holdfast.read_process_responses(p_id uuid, p_after int, p_bytes int)
returns json
language plpgsql
stable
as $$
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
$$;
