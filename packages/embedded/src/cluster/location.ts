import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { type Account, canEnter } from '../account.js'
import { EmbeddedPostgresError, systemErrorCode } from '../errors.js'
import { letPass } from '../files-for-account.js'

const OWN_FOLDER = '.holdfast'

/** The default data directory. */
export function defaultLocation(from = process.cwd()): string {
  return join(projectFolder(from), OWN_FOLDER, 'postgres')
}

/** The data directory of a server that is kept: the one asked for, or one that the server's account can reach. */
export function persistentLocation(wanted: string, account: Account | undefined, sharedFolder: string): string {
  try {
    makeParents(wanted, account)
    if (basename(dirname(wanted)) === OWN_FOLDER) ignoreInGit(dirname(wanted))
    if (canEnter(dirname(wanted), account)) return wanted
    return locationElsewhere(wanted, account, sharedFolder)
  } catch (error) {
    const code = systemErrorCode(error)
    if (code !== 'EACCES' && code !== 'EROFS' && code !== 'EPERM') throw error
    throw unwritable(wanted, error)
  }
}

/** A fresh folder for an ephemeral server; the caller removes it. */
export function ephemeralFolder(account: Account | undefined): string {
  const parent = [tmpdir(), '/tmp', '/var/tmp'].find((folder) => canEnter(folder, account)) ?? tmpdir()
  const folder = mkdtempSync(join(parent, 'holdfast-postgres-'))
  if (account !== undefined) letPass(folder)
  return folder
}

function projectFolder(from: string): string {
  for (let folder = from; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder
    if (folder === dirname(folder)) return from
  }
}

// The data and its password must not be committed to a repository.
function ignoreInGit(folder: string): void {
  try {
    writeFileSync(join(folder, '.gitignore'), '*\n', { flag: 'wx' })
  } catch (error) {
    if (systemErrorCode(error) !== 'EEXIST') throw error
  }
}

function makeParents(dataDir: string, account: Account | undefined): void {
  const parent = dirname(dataDir)
  const first = mkdirSync(parent, { recursive: true })
  if (first === undefined || account === undefined) return
  // A strict umask would keep the server's account out of the folders we have just made.
  for (let folder = parent; folder.length >= first.length; folder = dirname(folder)) letPass(folder)
}

/** Root's project lies below a folder that the server's account cannot enter: the data goes to a place of its own. */
function locationElsewhere(wanted: string, account: Account | undefined, sharedFolder: string): string {
  if (existsSync(wanted) && readdirSync(wanted).length > 0) throw shutIn(wanted, account)
  const project = basename(dirname(wanted)) === OWN_FOLDER ? dirname(dirname(wanted)) : wanted
  const name = `${basename(project).replaceAll(/[^\w.-]/g, '_')}-${createHash('sha256').update(wanted).digest('hex').slice(0, 12)}`
  const elsewhere = join(sharedFolder, name)
  makeParents(elsewhere, account)
  if (!canEnter(dirname(elsewhere), account)) throw shutIn(elsewhere, account)
  // Made again each time, never written through: a link may have been put there.
  rmSync(`${wanted}.location.txt`, { force: true })
  writeFileSync(`${wanted}.location.txt`, notice(wanted, elsewhere, account), { flag: 'wx' })
  return elsewhere
}

function notice(wanted: string, elsewhere: string, account: Account | undefined): string {
  return [
    'The data of the embedded PostgreSQL of this project is in',
    '',
    `  ${elsewhere}`,
    '',
    `PostgreSQL does not run as root. It runs as the user ${account?.name ?? ''}, who cannot enter`,
    `${dirname(wanted)}. To begin with an empty database, stop the server and remove the folder named above.`,
    '',
  ].join('\n')
}

function shutIn(dataDir: string, account: Account | undefined): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_DATA_DIR_UNREACHABLE',
    `PostgreSQL does not run as root, and the user ${account?.name ?? ''} it runs as cannot reach ${dataDir}. Nothing in it was changed.`,
    'Let that user pass through the folders above it (chmod o+x), or name another folder with the option dataDir.',
  )
}

function unwritable(dataDir: string, cause: unknown): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_DATA_DIR_UNREACHABLE',
    `The folder for the data, ${dirname(dataDir)}, cannot be made or written to (${cause instanceof Error ? cause.message : String(cause)}).`,
    'Name a folder that is yours with the option dataDir, pass ephemeral: true, or set DATABASE_URL.',
    { cause },
  )
}
