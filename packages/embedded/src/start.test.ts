import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ask, stopAfterTest, takenPort } from '../test/scratch.js'
import { isAlive } from './process-table.js'
import { startEmbedded } from './start.js'

describe('an ephemeral server', () => {
  it('is a real PostgreSQL with the database holdfast, UTF8 and UTC, asks for its password, and leaves nothing behind', async () => {
    const server = await stopAfterTest(startEmbedded({ ephemeral: true }))
    const facts = await ask(
      server.connectionString,
      `select concat_ws(' ', current_database(), current_user, getdatabaseencoding(), current_setting('TimeZone'),
         current_setting('fsync'), current_setting('max_connections'), current_setting('listen_addresses'))`,
    )
    expect(facts).toBe('holdfast holdfast UTF8 UTC off 200 127.0.0.1')
    expect(await ask(server.connectionString, 'show server_version')).toContain(server.version)
    const guess = server.connectionString.replace(/:[^:@]+@/, ':wrong@')
    await expect(ask(guess, 'select 1')).rejects.toMatchObject({ code: '28P01' })
    await server.stop()
    expect(isAlive(server.pid)).toBe(false)
    expect(existsSync(dirname(server.dataDir))).toBe(false)
  })

  it('takes the settings it is given, also durability and preloaded libraries', async () => {
    const settings = { fsync: true, synchronous_commit: 'on', shared_preload_libraries: 'pg_stat_statements' }
    const server = await stopAfterTest(startEmbedded({ ephemeral: true, settings }))
    const statement = `select concat_ws(' ', current_setting('fsync'), current_setting('synchronous_commit'),
      current_setting('full_page_writes'), current_setting('shared_preload_libraries'))`
    expect(await ask(server.connectionString, statement)).toBe('on on off pg_stat_statements')
  })

  it('that cannot start says why with the end of the log, and leaves nothing behind', async () => {
    const said: string[] = []
    const starting = startEmbedded({
      ephemeral: true,
      settings: { no_such_setting: 1 },
      log: (line) => said.push(line),
    })
    await expect(starting).rejects.toMatchObject({
      code: 'HF_EMBEDDED_START_FAILED',
      message: expect.stringContaining('unrecognized configuration parameter "no_such_setting"'),
    })
    const folder = /in (\S+)/.exec(said[0] ?? '')?.[1] ?? ''
    expect(folder).toContain('holdfast-postgres-')
    expect(existsSync(dirname(folder))).toBe(false)
  })
})

describe('the port', () => {
  it('that is asked for and taken is a clear error', async () => {
    const port = await takenPort()
    await expect(startEmbedded({ ephemeral: true, port })).rejects.toMatchObject({
      code: 'HF_EMBEDDED_PORT_TAKEN',
      message: expect.stringContaining(`Port ${port}`),
    })
  })
})
