import { closeSync, constants, fstatSync, ftruncateSync, openSync, readFileSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { systemErrorCode } from '../errors.js'
import { commandLine, isAlive, workingDirectory } from '../process-table.js'

/** What a server writes about itself into its data directory. */
export interface PidFile {
  readonly pid: number
  readonly port: number
  readonly status: string
}

export function readPidFile(dataDir: string): PidFile | undefined {
  const lines = readLines(dataDir)
  const pid = Number(lines?.[0])
  if (lines === undefined || !Number.isInteger(pid) || pid <= 0) return undefined
  return { pid, port: Number(lines[3]), status: (lines[7] ?? '').trim() }
}

/** The server that runs on this data directory now; undefined when there is none, whatever a stale file says. */
export function runningPostmaster(dataDir: string): PidFile | undefined {
  const file = readPidFile(dataDir)
  return file !== undefined && isPostmasterOf(file.pid, dataDir) ? file : undefined
}

/** Whether a process is a PostgreSQL server on this data directory, and not another program that got its number. */
export function isPostmasterOf(pid: number, dataDir: string): boolean {
  if (!isAlive(pid)) return false
  const command = commandLine(pid)
  // If nothing more is known (Windows), a live process with the number counts as the server.
  if (command === undefined) return true
  // A process that is just ending has no command line any more, but may still hold the port: go on to its folder.
  if (command !== '' && !/(^|[\\/])postgres(\.exe)?( |$)/.test(command)) return false
  const folder = workingDirectory(pid)
  return folder === undefined ? command.includes(dataDir) : isSameFolder(folder, dataDir)
}

/**
 * Makes PostgreSQL see that a pid file is stale although a process with that number lives (one of the same user got the
 * number since, and PostgreSQL checks nothing else). It ignores the number of its own parent, so ours is put in; unlike a
 * removed file, this keeps its check for orphans of the old server that still use the shared memory.
 */
export function disownPidFile(dataDir: string): void {
  const lines = readLines(dataDir)
  if (lines === undefined) return
  const fd = openSync(join(dataDir, 'postmaster.pid'), constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0))
  try {
    // A second name may belong to a file of root's, which the owner of this folder has linked to.
    if (fstatSync(fd).nlink !== 1) return
    ftruncateSync(fd)
    writeSync(fd, [String(process.pid), ...lines.slice(1)].join('\n'))
  } finally {
    closeSync(fd)
  }
}

function readLines(dataDir: string): string[] | undefined {
  try {
    return readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n')
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

// By identity, not by name: a project folder may be reached through a link, or have been moved.
function isSameFolder(a: string, b: string): boolean {
  const [first, second] = [a, b].map((path) => statSync(path, { throwIfNoEntry: false }))
  return first !== undefined && second !== undefined && first.dev === second.dev && first.ino === second.ino
}
