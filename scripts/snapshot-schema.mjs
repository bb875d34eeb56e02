// Writes packages/engine/sql/schema.sql: what the migrations make of an empty database (K-09).
import { writeFile } from 'node:fs/promises'
import { startEmbedded } from '../packages/embedded/dist/index.js'
import { openDatabase } from '../packages/engine/dist/kernel/database/open.js'
import { migrate } from '../packages/engine/dist/kernel/migrations/migrate.js'
import { describeSchema } from '../packages/testing/dist/schema/snapshot.js'

const server = await startEmbedded({ ephemeral: true })
try {
  const db = await openDatabase({ connectionString: server.connectionString })
  await migrate(db)
  await writeFile(new URL('../packages/engine/sql/schema.sql', import.meta.url), await describeSchema(db))
  await db.close()
} finally {
  await server.stop()
}
