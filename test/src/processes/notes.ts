import pg from 'pg'

/** What user code did, written down outside our transactions: what a crash takes back is not taken back here. */
export interface Notes {
  /** A call of a step's own code begins; `after` names what must be on record by then. */
  readonly called: (processId: string, call: string, after?: readonly string[]) => Promise<void>
  /** The same, tried once: where the database is away it throws, and nobody knows whether it was noted. */
  readonly calledOnce: (processId: string, call: string, after?: readonly string[]) => Promise<void>
  /** A compensation begins. */
  readonly undone: (processId: string, call: string) => Promise<void>
  /** Whether a call was ever noted: what the outside world would say. */
  readonly wasCalled: (processId: string, call: string) => Promise<boolean>
  close(): Promise<void>
}

export const notesTable = `
  create table effect (
    id uuid primary key,
    n bigint generated always as identity,
    process_id uuid not null,
    call text not null,
    -- It was on record already when it was called.
    recorded boolean not null,
    -- How much of what led to it was not on record.
    unready int not null
  );
  create index on effect (process_id, call);
  create table booking (process_id uuid not null, what text not null)`

export function openNotes(connectionString: string, poolSize = 3): Notes {
  const pool = new pg.Pool({ connectionString, max: poolSize })
  // A server that is killed ends idle connections; the next note gets a new one.
  pool.on('error', () => undefined)
  return {
    called: (processId, call, after = []) => note(pool, [crypto.randomUUID(), processId, call, 'call', after]),
    calledOnce: async (processId, call, after = []) =>
      void (await pool.query(statement, [crypto.randomUUID(), processId, call, 'call', after])),
    undone: (processId, call) => note(pool, [crypto.randomUUID(), processId, call, 'undo', []]),
    async wasCalled(processId, call) {
      const { rowCount } = await pool.query('select from effect where process_id = $1 and call = $2', [processId, call])
      return rowCount !== 0
    },
    close: () => pool.end(),
  }
}

/** Until it is written, whatever happens to the server: its id makes it one note. */
async function note(pool: pg.Pool, params: readonly unknown[]): Promise<void> {
  for (;;) {
    try {
      await pool.query(statement, [...params])
      return
    } catch (error) {
      if (!(error instanceof Error) || /does not exist|invalid|duplicate/.test(error.message)) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

const statement = `
  with recorded as (
    select name, kind
    from holdfast.process_history
    where process_id = $2::uuid and status = 'COMPLETED'
  )
  insert into effect (id, process_id, call, recorded, unready)
  select $1::uuid, $2::uuid, case $4::text when 'undo' then 'undo ' else '' end || $3::text,
    exists (select from recorded where name = $3 and (kind = 'COMPENSATION') = ($4 = 'undo')),
    (select count(*) from unnest($5::text[]) as needed where needed not in (select name from recorded))
  on conflict (id) do nothing`
