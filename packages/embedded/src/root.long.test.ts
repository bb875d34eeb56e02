import { chownSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startInChild } from '../test/child-program.js'
import { ask, scratchFolder, stopAfterTest } from '../test/scratch.js'
import { serverAccount } from './account.js'
import { startEmbedded, startOn } from './start.js'
import { thisMachine } from './surroundings.js'

const isRoot = process.getuid?.() === 0

describe.skipIf(!isRoot)('as root (skipped: these tests run as an ordinary user)', () => {
  it('the data of a project below a closed folder goes elsewhere, and a note beside its place says where', async () => {
    const project = join(scratchFolder(0o700), 'shop')
    const machine = { ...thisMachine, sharedFolder: join(scratchFolder(), 'shared') }
    const wanted = join(project, '.holdfast', 'postgres')
    const server = await stopAfterTest(startOn(machine, { dataDir: wanted }))
    expect(server.dataDir).toMatch(new RegExp(`^${machine.sharedFolder}/shop-[0-9a-f]{12}$`))
    expect(existsSync(wanted)).toBe(false)
    expect(readFileSync(`${wanted}.location.txt`, 'utf8')).toContain(server.dataDir)
    expect(readFileSync(join(project, '.holdfast', '.gitignore'), 'utf8')).toBe('*\n')
    await ask(server.connectionString, 'create table kept as select 1 as n')
    await server.stop()
    const again = await stopAfterTest(startOn(machine, { dataDir: wanted }))
    expect(again.dataDir).toBe(server.dataDir)
    expect(await ask(again.connectionString, 'select n from kept')).toBe(1)
  })

  it('data that is already below a closed folder is not silently ignored', async () => {
    const dataDir = join(scratchFolder(0o700), 'data')
    mkdirSync(dataDir)
    writeFileSync(join(dataDir, 'PG_VERSION'), '18\n')
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({
      code: 'HF_EMBEDDED_DATA_DIR_UNREACHABLE',
      message: expect.stringContaining(dataDir),
    })
  })

  it('the server runs under another account, and its data is closed to all others', async () => {
    const server = await stopAfterTest(startEmbedded({ ephemeral: true }))
    expect(statSync(server.dataDir).uid).toBe(serverAccount()?.uid)
    expect(statSync(server.dataDir).mode & 0o777).toBe(0o700)
    if (existsSync('/proc')) expect(statSync(`/proc/${server.pid}`).uid).toBe(serverAccount()?.uid)
  })

  it('a server that an ordinary user started keeps running under that user', async () => {
    const folder = scratchFolder()
    chownSync(folder, 65_534, 65_534)
    const dataDir = join(folder, '.holdfast', 'postgres')
    const { child, started, ended } = await startInChild({ dataDir }, { uid: 65_534, gid: 65_534 })
    expect(started).toMatchObject({ dataDir, reused: false })
    expect(await ask(started.connectionString, 'select 1')).toBe(1)
    expect(statSync(dataDir).uid).toBe(65_534)
    child.kill('SIGKILL')
    await ended
    const found = await stopAfterTest(startEmbedded({ dataDir }))
    expect(found).toMatchObject({ reused: true, pid: started.pid })
    await found.stop()
    const again = await stopAfterTest(startEmbedded({ dataDir }))
    expect(again.reused).toBe(false)
    expect(await ask(again.connectionString, 'select 1')).toBe(1)
  })

  it('an ordinary user is told when the folder belongs to root', async () => {
    const dataDir = join(scratchFolder(), 'postgres')
    await expect(startInChild({ dataDir }, { uid: 65_534, gid: 65_534 })).rejects.toThrow(
      /cannot be written to.*HF_EMBEDDED_DATA_DIR_UNREACHABLE/s,
    )
  })
})
