import pg from 'pg'

/** A connection for as long as it is used. */
export async function withClient<T>(connectionString: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(connectionString)
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}
