import { databaseFromEnvironment } from '@holdfast/embedded'
import pg from 'pg'
import { describeBooks, readBooks } from './ledger/books.js'

/** Prints the books of the database of the demo, or of DATABASE_URL; the exit code tells whether they balance. */
const database = await databaseFromEnvironment()
const pool = new pg.Pool({ connectionString: database.connectionString, max: 1 })
try {
  const { rows } = await pool.query<{ there: boolean }>(`select to_regclass('payments.payment') is not null as there`)
  if (!rows[0]?.there) throw new Error('there are no payments in this database yet: run `npm start` first')
  const books = await readBooks(pool)
  for (const line of describeBooks(books)) process.stdout.write(`${line}\n`)
  process.exitCode = books.balanced ? 0 : 1
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 2
} finally {
  await pool.end()
  await database.stop()
}
