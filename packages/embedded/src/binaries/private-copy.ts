import { createHash } from 'node:crypto'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
} from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Account, canEnter } from '../account.js'
import { EmbeddedPostgresError, systemErrorCode } from '../errors.js'
import { makeLinks } from './links.js'

/**
 * A copy of the package that the server's account can read, made once per version: the original lies below a folder
 * that account cannot enter (/root), or is read-only and lacks its links.
 */
export async function privateCopy(
  packageFolder: string,
  account: Account | undefined,
  sharedFolder: string,
): Promise<string> {
  const files = listFiles(packageFolder)
  const name = `postgres-${packageVersion(packageFolder)}-${contentKey(files)}`
  const parent = copyParent(account, sharedFolder)
  const final = join(parent, name)
  if (isTrustworthy(final) && contentKey(listFiles(final)) === contentKey(files)) return final

  const staging = mkdtempSync(`${final}.copying-`)
  try {
    await copyFiles(packageFolder, staging, files)
    makeLinks(staging)
    moveIntoPlace(staging, final)
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
  return final
}

interface FileEntry {
  readonly path: string
  readonly size: number
  readonly executable: boolean
}

function listFiles(packageFolder: string): FileEntry[] {
  const native = join(packageFolder, 'native')
  if (lstatSync(native, { throwIfNoEntry: false }) === undefined) return []
  return readdirSync(native, { recursive: true, encoding: 'utf8' })
    .map((name) => ({ path: join('native', name), stats: lstatSync(join(native, name)) }))
    .filter(({ stats }) => stats.isFile())
    .map(({ path, stats }) => ({ path, size: stats.size, executable: (stats.mode & 0o100) !== 0 }))
    .sort((a, b) => (a.path < b.path ? -1 : 1))
}

// Names and sizes, not bytes: it must distinguish versions and notice files that a cleaner of temporary folders has removed.
function contentKey(files: FileEntry[]): string {
  return createHash('sha256')
    .update(files.map(({ path, size }) => `${path}:${size}`).join('\n'))
    .digest('hex')
    .slice(0, 12)
}

async function copyFiles(from: string, to: string, files: FileEntry[]): Promise<void> {
  const folders = new Set([to])
  for (const { path, executable } of files) {
    const target = join(to, path)
    const made = mkdirSync(dirname(target), { recursive: true })
    for (let folder = dirname(target); made !== undefined && folder.length >= made.length; folder = dirname(folder)) {
      folders.add(folder)
    }
    await copyFile(join(from, path), target)
    chmodSync(target, executable ? 0o755 : 0o644)
  }
  // Explicitly, because a strict umask would shut the server's account out of the copy too.
  for (const folder of folders) chmodSync(folder, 0o755)
}

function moveIntoPlace(staging: string, final: string): void {
  for (let attempt = 1; ; attempt++) {
    try {
      renameSync(staging, final)
      return
    } catch (error) {
      const code = systemErrorCode(error)
      if (code !== 'ENOTEMPTY' && code !== 'EEXIST' && code !== 'EPERM') throw error
    }
    if (!isTrustworthy(final)) throw untrusted(final)
    // Another process has made the same copy before.
    if (contentKey(listFiles(final)) === contentKey(listFiles(staging)) || attempt === 3) return
    const damaged = mkdtempSync(`${final}.damaged-`)
    renameSync(final, join(damaged, 'old'))
    rmSync(damaged, { recursive: true, force: true })
  }
}

/** Programs in a shared folder are run only if no other user can have changed the folder. */
function isTrustworthy(folder: string): boolean {
  const stats: Stats | undefined = lstatSync(folder, { throwIfNoEntry: false })
  if (stats === undefined || !stats.isDirectory()) return false
  return process.getuid === undefined || (stats.uid === process.getuid() && (stats.mode & 0o022) === 0)
}

function untrusted(folder: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_BINARIES_UNUSABLE',
    `${folder} should hold our copy of the PostgreSQL binaries, but it belongs to another user or other users can write to it.`,
    'Look at who made it and remove it, or set HOLDFAST_POSTGRES_BIN to the programs of another PostgreSQL.',
  )
}

function copyParent(account: Account | undefined, sharedFolder: string): string {
  const candidates = copyParents(account, sharedFolder)
  const found = candidates.find((folder) => madeFor(folder, account))
  if (found !== undefined) return found
  throw new EmbeddedPostgresError(
    'HF_EMBEDDED_BINARIES_UNUSABLE',
    `The PostgreSQL binaries cannot be used where they are, and no folder was found to copy them to (tried ${candidates.join(', ')}).`,
    'Install the project where the user that runs PostgreSQL can read it, or set HOLDFAST_POSTGRES_BIN or DATABASE_URL.',
  )
}

// Root has a place of its own that no cleaner of temporary folders visits; others only have the temporary folder.
function copyParents(account: Account | undefined, sharedFolder: string): string[] {
  const own = `holdfast-${process.getuid?.() ?? 'user'}`
  return account === undefined ? [join(tmpdir(), own)] : [sharedFolder, join(tmpdir(), own), join('/tmp', own)]
}

function madeFor(folder: string, account: Account | undefined): boolean {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o755 })
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'EACCES' || code === 'EROFS' || code === 'EPERM') return false
    throw error
  }
  // Before anything is changed: in a temporary folder, another user may have put a link to elsewhere here.
  if (!isTrustworthy(folder)) throw untrusted(folder)
  if (account !== undefined) chmodSync(folder, 0o755)
  return canEnter(folder, account)
}

function packageVersion(packageFolder: string): string {
  const description: unknown = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'))
  if (typeof description !== 'object' || description === null || !('version' in description)) return 'unknown'
  return String(description.version).replaceAll(/[^\w.-]/g, '_')
}
