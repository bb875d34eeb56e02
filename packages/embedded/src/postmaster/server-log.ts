import { closeSync, constants, fchownSync, fstatSync, openSync, readSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Account } from '../account.js'
import { systemErrorCode } from '../errors.js'
import { isOwnFile } from '../files-for-account.js'

const ROTATE_BYTES = 10 * 1024 * 1024
const TAIL_BYTES = 4_000

/** The server's own log, opened for one start of it. */
export interface ServerLog {
  readonly fd: number
  /** What was written since it was opened, at most the last few kilobytes. */
  tail(): string
  close(): void
}

export function logPath(dataDir: string): string {
  return join(dataDir, 'holdfast.log')
}

export function openLog(dataDir: string, account: Account | undefined): ServerLog {
  const path = logPath(dataDir)
  const previous = statSync(path, { throwIfNoEntry: false })
  if (previous !== undefined && previous.size > ROTATE_BYTES) renameSync(path, `${path}.1`)
  const fd = createLog(path, account) ?? openOwnLog(path, account)
  const opened = fstatSync(fd).size
  return { fd, tail: () => readTail(fd, opened), close: () => closeSync(fd) }
}

// As root we write into a folder of another user, who must not be able to lead us to a file of root's by a link of either
// kind: only a file that we have just made is given away.
const FLAGS = constants.O_RDWR | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0)

function createLog(path: string, account: Account | undefined): number | undefined {
  try {
    const fd = openSync(path, FLAGS | constants.O_CREAT | constants.O_EXCL, 0o600)
    if (account !== undefined) fchownSync(fd, account.uid, account.gid)
    return fd
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') return undefined
    throw error
  }
}

function openOwnLog(path: string, account: Account | undefined): number {
  const fd = openSync(path, FLAGS)
  if (isOwnFile(fd, account)) return fd
  closeSync(fd)
  throw new Error(`${path} is not a file of the account that the server runs as; move it away`)
}

function readTail(fd: number, opened: number): string {
  const { size } = fstatSync(fd)
  const start = Math.max(opened, size - TAIL_BYTES)
  const buffer = Buffer.alloc(size - start)
  readSync(fd, buffer, 0, buffer.length, start)
  return buffer.toString().trim()
}
