import { closeSync, constants, fchownSync, fstatSync, openSync, readSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Account } from '../account.js'

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
  // As root we write into a folder of another user, who must not be able to lead us to a file of root's by a link.
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0)
  const fd = openSync(path, flags, 0o600)
  if (account !== undefined) fchownSync(fd, account.uid, account.gid)
  const opened = fstatSync(fd).size
  return { fd, tail: () => readTail(fd, opened), close: () => closeSync(fd) }
}

function readTail(fd: number, opened: number): string {
  const { size } = fstatSync(fd)
  const start = Math.max(opened, size - TAIL_BYTES)
  const buffer = Buffer.alloc(size - start)
  readSync(fd, buffer, 0, buffer.length, start)
  return buffer.toString().trim()
}
