import { spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { scratchFolder } from '../test/scratch.js'
import { serverAccount } from './account.js'
import { findBinaries } from './binaries/find-binaries.js'
import { createCluster } from './cluster/create.js'
import { writeRecord } from './cluster/record.js'
import { createFile, removeTree, withFolder } from './files-for-account.js'
import { openLog } from './postmaster/server-log.js'
import { thisMachine } from './surroundings.js'

const isRoot = process.getuid?.() === 0
const account = isRoot ? serverAccount() : undefined
const record = { madeBy: '@holdfast/embedded', password: 'secret' } as const

/** A file that belongs to root alone, and a folder of the server's account that can be attacked. */
function targets(): { readonly victim: string; readonly dataDir: string } {
  const folder = scratchFolder()
  const victim = join(folder, 'of-root')
  writeFileSync(victim, 'precious', { mode: 0o600 })
  const dataDir = join(folder, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  if (account) chownSync(dataDir, account.uid, account.gid)
  return { victim, dataDir }
}

function expectUntouched(victim: string): void {
  expect({ uid: statSync(victim).uid, content: readFileSync(victim, 'utf8') }).toEqual({
    uid: process.getuid?.(),
    content: 'precious',
  })
}

/** Runs a loop under the server's account until the test is over. */
async function attack(loop: string): Promise<void> {
  const code = `const fs = require('node:fs'); process.stdout.write('ready'); for (;;) { try { ${loop} } catch {} }`
  const child = spawn(process.execPath, ['-e', code], {
    uid: account?.uid,
    gid: account?.gid,
    cwd: '/',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let ready = false
  child.stdout.once('data', () => (ready = true))
  onTestFinished(() => void child.kill('SIGKILL'))
  await vi.waitUntil(() => ready, { timeout: 20_000 })
}

describe('K-27 a file made for another account', () => {
  it('is refused where a link is planted under its name, and what the link names is untouched', () => {
    const { victim, dataDir } = targets()
    symlinkSync(victim, join(dataDir, 'planted'))
    expect(() =>
      withFolder(dataDir, account?.uid, (folder) => createFile(folder, 'planted', 'taken', account)),
    ).toThrow(/EEXIST|ELOOP/)
    expectUntouched(victim)
  })

  it('is refused where the folder itself was replaced by a link, or by the folder of another account', () => {
    const { dataDir } = targets()
    const elsewhere = scratchFolder()
    symlinkSync(elsewhere, `${dataDir}-link`)
    expect(() => writeRecord(`${dataDir}-link`, record, account)).toThrow(/ELOOP|ENOTDIR/)
    if (isRoot) expect(() => writeRecord(elsewhere, record, account)).toThrow(/another folder was put in its place/)
    expect(readdirSync(elsewhere)).toEqual([])
  })

  it("belongs to that account and is closed to others, and so is the cluster's record", () => {
    const { dataDir } = targets()
    writeRecord(dataDir, record, account)
    const stats = statSync(join(dataDir, 'holdfast.json'))
    expect({ uid: stats.uid, mode: stats.mode & 0o777 }).toEqual({
      uid: account?.uid ?? process.getuid?.(),
      mode: 0o600,
    })
    expect(readdirSync(dataDir)).toEqual(['holdfast.json'])
  })
})

describe.skipIf(!isRoot)(
  'K-27 as root, the account of the server (skipped: these tests run as an ordinary user)',
  () => {
    it('cannot take a file of root by swapping the draft of the record for a link', async () => {
      const { victim, dataDir } = targets()
      await attack(`
      for (const name of fs.readdirSync('${dataDir}')) {
        if (!name.startsWith('holdfast.json.')) continue
        fs.rmSync('${dataDir}/' + name); fs.symlinkSync('${victim}', '${dataDir}/' + name)
      }`)
      for (let round = 0; round < 500 && statSync(victim).uid === 0; round++) {
        try {
          writeRecord(dataDir, record, account)
        } catch {
          // The draft was taken away under it: that is all the account can do.
        }
      }
      expectUntouched(victim)
    })

    it('cannot take a file of root by a second name of it in place of the log', () => {
      const { victim, dataDir } = targets()
      linkSync(victim, join(dataDir, 'holdfast.log'))
      expect(() => openLog(dataDir, account)).toThrow(/not a file of the account/)
      expectUntouched(victim)
    })

    it('cannot swap what is made for it while a cluster is created', async () => {
      const binaries = await findBinaries(undefined, account, thisMachine)
      const { victim, dataDir } = targets()
      const parent = scratchFolder()
      // Even in a folder of its own.
      if (account) chownSync(parent, account.uid, account.gid)
      await attack(`
      for (const name of fs.readdirSync('${parent}')) {
        const making = '${parent}/' + name
        for (const entry of fs.readdirSync(making)) {
          fs.renameSync(making + '/' + entry, making + '/' + entry + '.away')
          fs.symlinkSync('${victim}', making + '/' + entry)
        }
      }`)
      await createCluster({ dataDir: join(parent, 'made'), binaries, account, ephemeral: true })
      expectUntouched(victim)
      expect(statSync(join(parent, 'made')).uid).toBe(account?.uid)
      // Renamed by now, perhaps: that is the account's own business.
      expect(readdirSync(join(parent, 'made')).some((name) => name.startsWith('PG_VERSION'))).toBe(true)
      expect(dataDir).not.toBe(parent)
    })

    it('cannot have files of root removed by swapping a folder for a link while its data is cleared away', async () => {
      const { victim } = targets()
      const kept = scratchFolder()
      const doomed = scratchFolder()
      writeFileSync(join(kept, 'precious'), 'precious')
      await attack(`
      fs.renameSync('${doomed}/data/swap', '${doomed}/data/away')
      fs.symlinkSync('${kept}', '${doomed}/data/swap')`)
      for (let round = 0; round < 20 && existsSync(join(kept, 'precious')); round++) {
        const data = join(doomed, 'data')
        mkdirSync(join(data, 'swap'), { recursive: true })
        for (let n = 0; n < 20; n++) writeFileSync(join(data, 'swap', `file-${n}`), '')
        chmodSync(data, 0o777)
        if (account) chownSync(data, account.uid, account.gid)
        try {
          removeTree(data)
        } catch {
          // The attacker may make the removal fail. It must not make it go elsewhere.
        }
      }
      expect(readFileSync(join(kept, 'precious'), 'utf8')).toBe('precious')
      expectUntouched(victim)
    })
  },
)
