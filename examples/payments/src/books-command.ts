import { databaseFromEnvironment } from '@holdfast/embedded'
import pg from 'pg'
import { describeBooks, readBooks } from './ledger/books.js'

/** Prints the books of the database of the demo, or of DATABASE_URL; the exit code tells whether they balance. */
const database = await databaseFromEnvironment()
const pool = new pg.Pool({ connectionString: database.connectionString, max: 1 })
try {
  const books = await readBooks(pool)
  for (const line of describeBooks(books)) process.stdout.write(`${line}\n`)
  process.exitCode = books.balanced ? 0 : 1
} finally {
  await pool.end()
  await database.stop()
}
