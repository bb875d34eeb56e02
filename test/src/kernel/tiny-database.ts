import { testDatabase } from '@holdfast/testing/internal'
import { type Database, type DatabaseOptions, openDatabase } from 'holdfast/internal'
import { afterAll } from 'vitest'
import { installTinyModel } from '../tiny-model/index.js'

/** A fresh database with the tiny model, opened and closed with the test file. */
export async function tinyDatabase(
  options: Omit<DatabaseOptions, 'connectionString'> = {},
): Promise<{ db: Database; connectionString: string; open: (more?: DatabaseOptions) => Promise<Database> }> {
  const { connectionString } = await testDatabase()
  const opened: Database[] = []
  const open = async (more: DatabaseOptions = {}) => {
    const db = await openDatabase({ connectionString, ...more })
    opened.push(db)
    return db
  }
  const db = await open(options)
  await installTinyModel(db)
  afterAll(async () => {
    for (const each of opened) await each.close()
  })
  return { db, connectionString, open }
}
