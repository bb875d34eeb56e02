import type { Executor } from './executor.js'

/** Stores how large a value may be, for SQL functions and for workers that receive foreign messages. Audited like all settings. */
export async function storePayloadLimit(db: Executor, maxBytes: number): Promise<void> {
  await db.run(statement, [Math.min(maxBytes, 2 ** 31 - 1)])
}

const statement = {
  name: 'codec.store-limit',
  text: `
    with before as (
      select value from holdfast.setting where name = 'payload_bytes'
    ),
    stored as (
      insert into holdfast.setting (name, value) values ('payload_bytes', pg_catalog.to_jsonb($1::int))
      on conflict (name) do update set value = excluded.value where setting.value <> excluded.value
      returning value
    )
    insert into holdfast.audit (at, model, event, subject_name, before, after)
    select holdfast.now(), 'kernel', 'SETTING_CHANGED', 'payload_bytes', (select value from before), value from stored`,
}
