import pg from 'pg'

/** Connections that are all open before the clock starts. One that breaks is told by the next statement on it. */
export async function openPool(connectionString: string, connections: number): Promise<pg.Pool> {
  const pool = new pg.Pool({ connectionString, max: connections })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
  const clients = await Promise.all(Array.from({ length: connections }, () => pool.connect()))
  for (const client of clients) client.release()
  return pool
}
