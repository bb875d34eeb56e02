/**
 * Files and folders that this process makes, as root, in places which the server's account can change at the same moment.
 * That account must never make us change a file of root: a name is opened once, without following a link, checked, and from
 * then on changed through its descriptor; the owner of an existing file is never changed. Callers: the cluster's creation, its
 * record, the server's log.
 */
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmSync,
  type Stats,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Account } from './account.js'

// Windows has neither links of this kind nor root, and Node leaves the constants out there.
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0
const FOLDER_ONLY = constants.O_DIRECTORY ?? 0

/** A folder that was opened once: `at` leads into that folder also if its name is replaced. */
export interface OpenFolder {
  /** The path of an entry. Good until `close`. */
  at(name: string): string
  /** Throws if the folder's name leads elsewhere by now. */
  check(): void
  stats(): Stats
  /** Gives the folder to the account. */
  giveTo(account: Account | undefined): void
  setMode(mode: number): void
  close(): void
}

/** Opens a folder. A link in its place is refused, and so is, where an owner is named, the folder of another account. */
export function openFolder(path: string, owner?: number): OpenFolder {
  if (process.platform === 'win32') return unguarded(path)
  const fd = openSync(path, constants.O_RDONLY | FOLDER_ONLY | NO_FOLLOW)
  const stats = fstatSync(fd)
  if (owner !== undefined && stats.uid !== owner) {
    closeSync(fd)
    throw new Error(
      `${path} belongs to the user with id ${stats.uid}, not ${owner}: another folder was put in its place`,
    )
  }
  return {
    // Linux resolves this name to the open folder itself, as `openat` would, which Node does not have. Elsewhere `check`
    // finds out afterwards.
    at: (name) => (process.platform === 'linux' ? `/proc/self/fd/${fd}/${name}` : join(path, name)),
    check: () => {
      if (process.platform !== 'linux' && !isSame(lstatSync(path), stats))
        throw new Error(`another folder was put in the place of ${path}`)
    },
    stats: () => fstatSync(fd),
    giveTo: (account) => account && fchownSync(fd, account.uid, account.gid),
    setMode: (mode) => fchmodSync(fd, mode),
    close: () => closeSync(fd),
  }
}

/** Runs work on a folder, and closes it. */
export function withFolder<T>(path: string, owner: number | undefined, work: (folder: OpenFolder) => T): T {
  const folder = openFolder(path, owner)
  try {
    return work(folder)
  } finally {
    folder.close()
  }
}

/** Makes a file that the account alone can read. A name that is taken, also by a link, is refused. */
export function createFile(folder: OpenFolder, name: string, content: string, account: Account | undefined): void {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | NO_FOLLOW
  const fd = openSync(folder.at(name), flags, 0o600)
  try {
    folder.check()
    writeSync(fd, content)
    if (account !== undefined) fchownSync(fd, account.uid, account.gid)
  } finally {
    closeSync(fd)
  }
}

/** Makes a folder that the account alone can enter. The folder it is made in must be one that the account cannot write to. */
export function createFolder(parent: OpenFolder, name: string, account: Account | undefined): void {
  mkdirSync(parent.at(name), { mode: 0o700 })
  parent.check()
  withFolder(parent.at(name), process.getuid?.(), (made) => made.giveTo(account))
}

/** Lets all users pass through a folder that was just made: a strict umask would keep the server's account out. */
export function letPass(path: string): void {
  withFolder(path, process.getuid?.(), (folder) => folder.setMode(0o755))
}

/**
 * Whether a file that existed when it was opened is the account's own and nothing else's: a second name could be a file of
 * root's that the account has linked to.
 */
export function isOwnFile(fd: number, account: Account | undefined): boolean {
  const stats = fstatSync(fd)
  return account === undefined || (stats.isFile() && stats.nlink === 1 && stats.uid === account.uid)
}

/**
 * Removes a folder with everything in it. As root through `rm`, which opens each folder before it looks into it: Node goes
 * by names, and the owner of a folder could put a link in its place between two of its steps.
 */
export function removeTree(path: string): void {
  if (process.getuid?.() === 0) execFileSync('rm', ['-rf', '--', path], { stdio: 'ignore' })
  // After kill(), children of the postmaster may still write for a moment.
  else rmSync(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
}

function unguarded(path: string): OpenFolder {
  const nothing = () => undefined
  return {
    at: (name) => join(path, name),
    stats: () => lstatSync(path),
    check: nothing,
    giveTo: nothing,
    setMode: nothing,
    close: nothing,
  }
}

function isSame(a: Stats, b: Stats): boolean {
  return a.dev === b.dev && a.ino === b.ino
}
