import { spawn } from 'node:child_process'
import { chownSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { scratchFolder, stopAfterTest } from '../../test/scratch.js'
import { serverAccount } from '../account.js'
import { findBinaries } from '../binaries/find-binaries.js'
import { readPidFile } from '../postmaster/pid-file.js'
import { freePort } from '../postmaster/probe.js'
import { isAlive } from '../process-table.js'
import { runProgram, spawnContext } from '../program.js'
import { startEmbedded } from '../start.js'
import { thisMachine } from '../surroundings.js'
import { checkMajor, inspectCluster } from './inspect.js'

describe('a folder that is not a complete data directory of ours is explained and untouched', () => {
  it('half made: files, but no PG_VERSION', async () => {
    const dataDir = join(scratchFolder(), 'half')
    mkdirSync(join(dataDir, 'base'), { recursive: true })
    writeFileSync(join(dataDir, 'postgresql.conf'), 'precious')
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({
      code: 'HF_EMBEDDED_DATA_DIR_INCOMPLETE',
      message: expect.stringMatching(/half.*no file PG_VERSION.*remove it yourself/s),
    })
    expect(readdirSync(dataDir).sort()).toEqual(['base', 'postgresql.conf'])
    expect(readFileSync(join(dataDir, 'postgresql.conf'), 'utf8')).toBe('precious')
  })

  it('a file in its place', async () => {
    const dataDir = join(scratchFolder(), 'file')
    writeFileSync(dataDir, 'precious')
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({ code: 'HF_EMBEDDED_DATA_DIR_INCOMPLETE' })
    expect(readFileSync(dataDir, 'utf8')).toBe('precious')
  })

  it('a record that cannot be read', () => {
    const dataDir = scratchFolder()
    writeFileSync(join(dataDir, 'PG_VERSION'), '18\n')
    writeFileSync(join(dataDir, 'holdfast.json'), '{"madeBy"')
    expect(() => inspectCluster(dataDir)).toThrow(/holdfast.json cannot be read.*HF_EMBEDDED_DATA_DIR_INCOMPLETE/s)
  })

  it("the user's own data directory, with a server on it that goes on running", async () => {
    const dataDir = join(scratchFolder(), 'own')
    const { pid, port } = await startForeignServer(dataDir)
    const before = readdirSync(dataDir).sort()
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({
      code: 'HF_EMBEDDED_DATA_DIR_FOREIGN',
      message: expect.stringMatching(new RegExp(`pid ${pid}, port ${port}.*DATABASE_URL`, 's')),
    })
    expect(isAlive(pid)).toBe(true)
    expect(readdirSync(dataDir).sort()).toEqual(before)
  })
})

describe('a complete one', () => {
  it('of another major version is refused with the way to go on', () => {
    const binaries = { major: 18, binDir: '/opt/pg18/bin' }
    expect(() => checkMajor('/data', 15, binaries)).toThrow(
      /PostgreSQL 15, and .*version 18.*HOLDFAST_POSTGRES_BIN at a PostgreSQL 15.*HF_EMBEDDED_VERSION_MISMATCH/s,
    )
    expect(() => checkMajor('/data', 18, binaries)).not.toThrow()
  })

  it('is made in a folder that exists and is empty; what an interrupted start left behind is named and kept', async () => {
    const folder = scratchFolder()
    mkdirSync(join(folder, 'new'))
    mkdirSync(join(folder, 'new.making-cutoff'))
    const said: string[] = []
    const server = await stopAfterTest(startEmbedded({ dataDir: join(folder, 'new'), log: (line) => said.push(line) }))
    await server.stop()
    expect(said).toContainEqual(expect.stringContaining('new.making-cutoff is left over'))
    expect(readdirSync(folder).sort()).toEqual(['new', 'new.making-cutoff'])
    expect(inspectCluster(join(folder, 'new'))).toMatchObject({ kind: 'ours' })
  })
})

async function startForeignServer(dataDir: string): Promise<{ pid: number; port: number }> {
  const account = serverAccount()
  const { initdb, postgres } = await findBinaries(undefined, account, thisMachine)
  mkdirSync(dataDir, { mode: 0o700 })
  if (account !== undefined) chownSync(dataDir, account.uid, account.gid)
  const made = await runProgram(initdb, ['-D', dataDir, '-N', '--no-locale', '-E', 'UTF8', '-A', 'trust'], { account })
  expect(made).toMatchObject({ code: 0 })
  const port = await freePort()
  const args = ['-D', dataDir, '-p', String(port), '-c', 'unix_socket_directories=', '-c', 'listen_addresses=127.0.0.1']
  const server = spawn(postgres, args, { ...spawnContext(postgres, account), stdio: 'ignore' })
  onTestFinished(async () => {
    server.kill('SIGQUIT')
    await vi.waitUntil(() => server.exitCode !== null || server.signalCode !== null, { timeout: 10_000 })
    rmSync(dataDir, { recursive: true, force: true })
  })
  await vi.waitUntil(() => readPidFile(dataDir)?.status === 'ready', { timeout: 20_000 })
  return { pid: server.pid ?? 0, port }
}
