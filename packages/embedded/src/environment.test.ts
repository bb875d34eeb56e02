import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { ask } from '../test/scratch.js'
import { databaseFromEnvironment } from './environment.js'

afterEach(() => {
  vi.unstubAllEnvs()
})

describe('databaseFromEnvironment', () => {
  it('takes DATABASE_URL as it is, and describes it without the password', async () => {
    const url = 'postgres://ann:secret@db.example.com:6432/shop?sslmode=require'
    vi.stubEnv('DATABASE_URL', url)
    const database = await databaseFromEnvironment()
    expect(database).toMatchObject({ connectionString: url, embedded: false })
    expect(database.describe).toBe('the PostgreSQL of DATABASE_URL at db.example.com:6432, database shop')
    await database.stop()
  })

  it.each(['mysql://ann:secret@db/shop', 'localhost:5432', 'db'])('refuses %s without repeating it', async (url) => {
    vi.stubEnv('DATABASE_URL', url)
    const refused = databaseFromEnvironment()
    await expect(refused).rejects.toMatchObject({ code: 'HF_EMBEDDED_DATABASE_URL' })
    await expect(refused).rejects.not.toThrow(/secret/)
  })

  it('starts an embedded server when DATABASE_URL is empty or not set', async () => {
    vi.stubEnv('DATABASE_URL', ' ')
    const database = await databaseFromEnvironment({ ephemeral: true })
    onTestFinished(() => database.stop())
    expect(database.embedded).toBe(true)
    expect(database.describe).toMatch(/^PostgreSQL \d+.* \(embedded\) on 127\.0\.0\.1:\d+, data in \//)
    expect(await ask(database.connectionString, 'select 1')).toBe(1)
    await database.stop()
    await expect(ask(database.connectionString, 'select 1')).rejects.toThrow(/ECONNREFUSED/)
  })
})
