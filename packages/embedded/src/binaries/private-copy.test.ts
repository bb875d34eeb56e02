import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { scratchFolder } from '../../test/scratch.js'
import { privateCopy } from './private-copy.js'

describe.skipIf(process.getuid === undefined)('a copy of the binaries', () => {
  it('is made once, also by two programs at the same moment, with modes that let the server read it', async () => {
    const [shared, source] = [join(scratchFolder(), 'shared'), smallPackage()]
    const [first, second] = await Promise.all([copyTo(shared, source), copyTo(shared, source)])
    expect(second).toBe(first)
    expect(readdirSync(dirname(first))).toEqual([expect.stringMatching(/^postgres-1\.2\.3-[0-9a-f]{12}$/)])
    expect(modes(first, '', 'native', 'native/bin', 'native/bin/postgres', 'native/lib/libpq.so.5.18')).toEqual([
      '755',
      '755',
      '755',
      '755',
      '644',
    ])
    expect(readFileSync(join(first, 'native', 'lib', 'libpq.so.5'), 'utf8')).toBe('library')
    const made = lstatSync(first).ino
    expect(lstatSync(await copyTo(shared, source)).ino).toBe(made)
  })

  it('is made again when a cleaner of temporary folders has removed some of its files', async () => {
    const [shared, source] = [join(scratchFolder(), 'shared'), smallPackage()]
    const copy = await copyTo(shared, source)
    rmSync(join(copy, 'native', 'lib'), { recursive: true })
    expect(await copyTo(shared, source)).toBe(copy)
    expect(readFileSync(join(copy, 'native', 'lib', 'libpq.so.5'), 'utf8')).toBe('library')
    expect(readdirSync(shared)).toHaveLength(1)
  })

  it('is not trusted when others can write to it', async () => {
    const [shared, source] = [join(scratchFolder(), 'shared'), smallPackage()]
    const copy = await copyTo(shared, source)
    chmodSync(copy, 0o777)
    await expect(copyTo(shared, source)).rejects.toMatchObject({
      code: 'HF_EMBEDDED_BINARIES_UNUSABLE',
      message: expect.stringContaining(copy),
    })
  })

  it('is not written where another account has planted a link', async () => {
    const shared = join(scratchFolder(), 'shared')
    const elsewhere = scratchFolder(0o700)
    symlinkSync(elsewhere, shared)
    await expect(copyTo(shared, smallPackage())).rejects.toMatchObject({ code: 'HF_EMBEDDED_BINARIES_UNUSABLE' })
    expect(readdirSync(elsewhere)).toEqual([])
    expect(modes(elsewhere, '')).toEqual(['700'])
  })
})

function smallPackage(): string {
  const folder = scratchFolder()
  for (const name of ['bin', 'lib']) mkdirSync(join(folder, 'native', name), { recursive: true, mode: 0o700 })
  writeFileSync(join(folder, 'package.json'), '{"version": "1.2.3"}')
  writeFileSync(join(folder, 'native', 'bin', 'postgres'), 'program', { mode: 0o700 })
  writeFileSync(join(folder, 'native', 'lib', 'libpq.so.5.18'), 'library', { mode: 0o600 })
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]
  writeFileSync(join(folder, 'native', 'pg-symlinks.json'), JSON.stringify(links))
  return folder
}

function modes(folder: string, ...paths: string[]): string[] {
  return paths.map((path) => (lstatSync(join(folder, path)).mode & 0o777).toString(8))
}

// With an account, as root would: it only decides where the copy goes.
function copyTo(shared: string, source: string): Promise<string> {
  const account = { name: 'self', uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  return privateCopy(source, account, shared)
}
