import pg from 'pg'

/** What handlers did, written down outside our transactions: what a crash takes back is not taken back here. */
export interface Notes {
  /** A call of a handler begins: of a step, or of a compensation. */
  readonly called: (instanceId: string, call: string) => Promise<void>
  close(): Promise<void>
}

export const notesTable = `
  create table effect (
    id uuid primary key,
    n bigint generated always as identity,
    instance_id uuid not null,
    call text not null,
    -- Its end was on record already when it was called.
    recorded boolean not null
  );
  create index on effect (instance_id, call);
  create table booking (instance_id uuid not null, what text not null)`

export function openNotes(connectionString: string, poolSize = 3): Notes {
  const pool = new pg.Pool({ connectionString, max: poolSize })
  // A server that is killed ends idle connections; the next note gets a new one.
  pool.on('error', () => undefined)
  return {
    called: (instanceId, call) => note(pool, [crypto.randomUUID(), instanceId, call]),
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
  insert into effect (id, instance_id, call, recorded)
  select $1::uuid, $2::uuid, $3, exists (
    select
    from holdfast.workflow_step
    where workflow_id = $2::uuid and status in ('COMPLETED', 'ROLLED_BACK') and name = $3
  )
  on conflict do nothing`
