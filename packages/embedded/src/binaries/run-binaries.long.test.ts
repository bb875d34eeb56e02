import { cpSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ask, scratchFolder, stopAfterTest } from '../../test/scratch.js'
import { serverAccount } from '../account.js'
import { startEmbedded, startOn } from '../start.js'
import { thisMachine } from '../surroundings.js'
import { findBinaries } from './find-binaries.js'
import { packageName } from './npm-package.js'

const account = serverAccount()
const npmFolder = thisMachine.packageFolder(packageName(process.platform, process.arch))
const systemFolder = thisMachine.systemFolders().find((folder) => existsSync(join(folder, 'initdb')))

it.skipIf(systemFolder === undefined)(
  'binDir: the PostgreSQL of that folder runs (skipped: none is installed)',
  async () => {
    const server = await stopAfterTest(startEmbedded({ ephemeral: true, binDir: systemFolder ?? '' }))
    const version = await ask(server.connectionString, 'show server_version')
    expect(version).toContain(server.version)
    expect(await ask(server.connectionString, 'select getdatabaseencoding()')).toBe('UTF8')
    await server.restart('immediate')
    expect(await ask(server.connectionString, 'select 1')).toBe(1)
  },
)

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
