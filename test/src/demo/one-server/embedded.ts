/** Stands in for `startEmbedded` of @holdfast/embedded. */
export async function startEmbedded(): Promise<{ readonly connectionString: string; stop(): Promise<void> }> {
  const { DATABASE_URL: connectionString } = process.env
  if (!connectionString) throw new Error('DATABASE_URL is not set: the test gives each program a database')
  return { connectionString, stop: async () => undefined }
}
