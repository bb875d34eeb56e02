import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { startInChild } from '../test/child-program.js'
import { ask, scratchFolder, stopAfterTest } from '../test/scratch.js'
import { serverAccount } from './account.js'
import { isAlive } from './process-table.js'
import type { EmbeddedServer } from './server.js'
import { startEmbedded } from './start.js'

const patient = { timeout: 20_000, interval: 20 }

describe('when the program that started the server dies', () => {
  it('by kill -9, a kept server goes on and is found again', async () => {
    const dataDir = join(scratchFolder(), 'survivor')
    const { child, started, ended } = await startInChild({ dataDir })
    await ask(started.connectionString, 'create table survivor as select 42 as n')
    child.kill('SIGKILL')
    await ended
    const server = await stopAfterTest(startEmbedded({ dataDir }))
    expect(server).toMatchObject({ reused: true, pid: started.pid, port: started.port, version: started.version })
    expect(await ask(server.connectionString, 'select n from survivor')).toBe(42)
    await server.stop()
    expect(isAlive(started.pid)).toBe(false)
  })

  it('by its own end without stop(), a kept server is shut down cleanly', async () => {
    const dataDir = join(scratchFolder(), 'forgotten')
    const { started, ended } = await startInChild({ dataDir }, { afterwards: 'leave' })
    await ended
    await vi.waitUntil(() => !isAlive(started.pid), patient)
    expect(serverLog(dataDir)).toContain('database system is shut down')
  })

  it.each(['SIGKILL', 'SIGTERM'] as const)('by %s, an ephemeral server and its folder go too', async (signal) => {
    const { child, started, ended } = await startInChild({ ephemeral: true })
    child.kill(signal)
    await ended
    await vi.waitUntil(() => !isAlive(started.pid) && !existsSync(dirname(started.dataDir)), patient)
  })

  it('by its own end without stop(), an ephemeral server and its folder go too', async () => {
    const { started, ended } = await startInChild({ ephemeral: true }, { afterwards: 'leave' })
    await ended
    await vi.waitUntil(() => !isAlive(started.pid) && !existsSync(dirname(started.dataDir)), patient)
  })
})

describe('when the server dies', () => {
  it('restart() brings it back after kill(), on the same port with everything that was committed', async () => {
    const server = await stopAfterTest(
      startEmbedded({ ephemeral: true, settings: { fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on' } }),
    )
    await ask(server.connectionString, 'create table committed as select 7 as n')
    const before = server.pid
    await server.kill()
    expect(isAlive(before)).toBe(false)
    await expect(ask(server.connectionString, 'select 1')).rejects.toThrow(/ECONNREFUSED/)
    await server.restart()
    expect(server.pid).not.toBe(before)
    expect(await ask(server.connectionString, 'select n from committed')).toBe(7)
  })

  it('restart() waits for the orphans of a killed server that still hold its memory', async () => {
    const server = await stopAfterTest(startEmbedded({ ephemeral: true }))
    const client = new pg.Client({ connectionString: server.connectionString })
    client.on('error', () => undefined)
    await client.connect()
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    const orphan = rows[0]?.pid ?? 0
    // Stopped, so that it does not notice the end of the postmaster.
    process.kill(orphan, 'SIGSTOP')
    await server.kill()
    const restarted = server.restart()
    await vi.waitUntil(() => serverLog(server.dataDir).includes('pre-existing shared memory block'), patient)
    process.kill(orphan, 'SIGCONT')
    await restarted
    expect(await ask(server.connectionString, 'select 1')).toBe(1)
  })

  it('restart() ends sessions in either mode and comes back', async () => {
    const server = await stopAfterTest(startEmbedded({ ephemeral: true }))
    for (const mode of ['fast', 'immediate'] as const) {
      const ended = expect(ask(server.connectionString, 'select pg_sleep(60)')).rejects.toThrow()
      await vi.waitUntil(() => isActive(server, 'select pg_sleep(60)'), patient)
      await server.restart(mode)
      await ended
      expect(await ask(server.connectionString, 'select 1')).toBe(1)
    }
  })

  it('a pid file of a dead server does not prevent a start', async () => {
    const dataDir = join(scratchFolder(), 'stale')
    const { child, started, ended } = await startInChild({ dataDir })
    child.kill('SIGKILL')
    await ended
    process.kill(started.pid, 'SIGKILL')
    await vi.waitUntil(() => !isAlive(started.pid), patient)
    expect(readFileSync(join(dataDir, 'postmaster.pid'), 'utf8')).toContain(String(started.pid))
    const server = await stopAfterTest(startEmbedded({ dataDir }))
    expect(server.reused).toBe(false)
    expect(await ask(server.connectionString, 'select 1')).toBe(1)
  })

  it('nor does a pid file whose number another program has by now, and that program is not touched', async () => {
    const dataDir = join(scratchFolder(), 'recycled')
    const first = await stopAfterTest(startEmbedded({ dataDir }))
    const pidFile = readFileSync(join(dataDir, 'postmaster.pid'), 'utf8')
    await first.kill()
    await first.stop()
    // Of the same user: PostgreSQL itself takes such a process for a living server and refuses to start.
    const account = serverAccount()
    const innocent = spawn('sleep', ['60'], account === undefined ? {} : { uid: account.uid, gid: account.gid })
    onTestFinished(() => void innocent.kill())
    writeFileSync(join(dataDir, 'postmaster.pid'), pidFile.replace(/^\d+/, String(innocent.pid)))
    const second = await stopAfterTest(startEmbedded({ dataDir }))
    expect(second.reused).toBe(false)
    await second.stop()
    expect(innocent.exitCode).toBeNull()
    expect(innocent.signalCode).toBeNull()
  })
})

function serverLog(dataDir: string): string {
  return readFileSync(join(dataDir, 'holdfast.log'), 'utf8')
}

async function isActive(server: EmbeddedServer, statement: string): Promise<boolean> {
  const found = `select count(*)::int from pg_stat_activity where query = $q$${statement}$q$ and state = 'active'`
  return (await ask(server.connectionString, found)) === 1
}
