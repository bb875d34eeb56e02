import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { EmbeddedPostgresError, systemErrorCode } from './errors.js'
import { isAlive, startTime } from './process-table.js'
import { until } from './waiting.js'

const WAIT_MS = 150_000
// A file without content is one whose writer is between two system calls, or was killed there.
const UNWRITTEN_MS = 5_000

/** Runs the work while no other process starts or stops the server of the same data directory. */
export async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const release = await until(WAIT_MS, () => tryLock(path))
  if (release === undefined) throw stillLocked(path)
  try {
    return await work()
  } finally {
    release()
  }
}

/** Takes the lock if it is free or its owner is dead. Returns a function that releases it. */
export function tryLock(path: string): (() => void) | undefined {
  const taken = create(path) || (clearIfStale(path) && create(path))
  return taken ? () => rmSync(path, { force: true }) : undefined
}

function create(path: string): boolean {
  try {
    writeFileSync(path, JSON.stringify({ pid: process.pid, started: startTime(process.pid) }), { flag: 'wx' })
    return true
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'EEXIST') return false
    if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') throw notOurs(path, error)
    throw error
  }
}

/**
 * Moves a dead owner's lock out of the way. By rename, which only one of several can do to the same file; should another
 * have taken the lock between our check and the rename, it is put back. The remaining window does no harm: PostgreSQL
 * itself lets only one server onto a data directory.
 */
function clearIfStale(path: string): boolean {
  const seen = read(path)
  if (seen === undefined || !isStale(path, seen)) return false
  const aside = `${path}.stale-${randomBytes(6).toString('hex')}`
  try {
    renameSync(path, aside)
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return true
    throw error
  }
  if (read(aside) === seen) rmSync(aside, { force: true })
  else renameSync(aside, path)
  return true
}

function isStale(path: string, content: string): boolean {
  const owner = parseOwner(content)
  if (owner === undefined) {
    const written = statSync(path, { throwIfNoEntry: false })?.mtimeMs
    return written !== undefined && Date.now() - written > UNWRITTEN_MS
  }
  return !isAlive(owner.pid) || (owner.started !== undefined && startTime(owner.pid) !== owner.started)
}

function parseOwner(content: string): { pid: number; started?: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(content)
    if (typeof value !== 'object' || value === null || !('pid' in value) || typeof value.pid !== 'number')
      return undefined
    return { pid: value.pid, ...('started' in value && { started: value.started }) }
  } catch {
    return undefined
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

function stillLocked(path: string): EmbeddedPostgresError {
  const pid = parseOwner(read(path) ?? '')?.pid
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_LOCKED',
    `Another process (pid ${pid ?? 'unknown'}) has been starting or stopping this server for ${WAIT_MS / 1000} s; it holds ${path}.`,
    'See what that process does and end it if it hangs; the lock of a dead process is cleared by itself.',
  )
}

function notOurs(path: string, cause: unknown): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_DATA_DIR_UNREACHABLE',
    `The folder ${dirname(path)} cannot be written to; probably it was created by root or by another user.`,
    'Start as its owner, name a folder that is yours with the option dataDir, or pass ephemeral: true.',
    { cause },
  )
}
