import type pg from 'pg'

/** Returns the version of a server that keeps what it has committed. */
export async function refuseUnsafe(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ version: string; fsync: string; commit: string }>(
    `select current_setting('server_version') as version, current_setting('fsync') as fsync,
            current_setting('synchronous_commit') as commit`,
  )
  const [{ version, fsync, commit } = { version: '', fsync: 'off', commit: 'off' }] = rows
  const off = fsync === 'off' ? 'fsync' : commit === 'off' ? 'synchronous_commit' : undefined
  if (off === undefined) return version
  throw new Error(
    `This PostgreSQL runs with ${off} off, so its commits prove nothing: a power cut would lose them. Turn it on, or unset DATABASE_URL to measure on an embedded server.`,
  )
}
