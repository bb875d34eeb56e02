import type { Sql } from '../kit/sql.js'

/** What happened at a simulated service, in order. */
export interface EffectEvent {
  /** Whose effect it is: the id of a process, a workflow instance or a command. */
  readonly execution: string
  /** Which call of the execution: the name of its step. */
  readonly name: string
  /**
   * `called`, `made` (the effect), `refused` (no effect), `answered` (the caller got the response),
   * `inquired` (the result was `notDone`) and `undone`.
   */
  readonly what: 'called' | 'made' | 'refused' | 'answered' | 'inquired' | 'undone'
  readonly idempotencyKey: string
  /** The call must not be repeated blindly, and the service does not recognise a repetition. */
  readonly once: boolean
}

/** Where the events are kept. They must survive the workers that are killed. */
export interface EffectStore {
  append(event: EffectEvent): Promise<void>
  /** All of them, or those of one call, in order. */
  read(of?: Pick<EffectEvent, 'execution' | 'name'>): Promise<readonly EffectEvent[]>
}

/** In the test's own process, for workers within it, which is the default of `crashTest` and `faultTest`. */
export function effectsInMemory(): EffectStore {
  const all: EffectEvent[] = []
  const byCall = new Map<string, EffectEvent[]>()
  const keyOf = ({ execution, name }: Pick<EffectEvent, 'execution' | 'name'>) => JSON.stringify([execution, name])
  return {
    async append(event) {
      all.push(event)
      const key = keyOf(event)
      byCall.set(key, [...(byCall.get(key) ?? []), event])
    },
    read: async (of) => (of ? (byCall.get(keyOf(of)) ?? []) : all),
  }
}

/** Pass it to `prepare` if events are kept in the database. */
export const effectTable = `
  create table simulated_effect (
    number bigint generated always as identity primary key,
    execution text not null,
    name text not null,
    what text not null,
    idempotency_key text not null,
    once boolean not null
  );
  create index on simulated_effect (execution, name)`

/**
 * In a table of the tested database: for workers that are processes of their own.
 *
 * @example
 * await kit.sql(effectTable)
 * const bank = createEffects({ seed: 7, store: effectsInDatabase(kit.sql) })
 */
export function effectsInDatabase(sql: Sql): EffectStore {
  return {
    async append({ execution, name, what, idempotencyKey, once }) {
      await sql(
        'insert into simulated_effect (execution, name, what, idempotency_key, once) values ($1, $2, $3, $4, $5)',
        [execution, name, what, idempotencyKey, once],
      )
    },
    read: (of) =>
      sql<EffectEvent>(
        `select execution, name, what, idempotency_key as "idempotencyKey", once
         from simulated_effect
         where $1::text is null or (execution, name) = ($1, $2)
         order by number`,
        [of?.execution ?? null, of?.name ?? null],
      ),
  }
}
