import { execFileSync } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'

/**
 * Whether a process runs. A zombie does not: in a container whose first process reaps no children, a dead postmaster stays in
 * the table and still accepts signal 0.
 */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // EPERM: it exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
  return statFields(pid)?.[0] !== 'Z'
}

/** When a process started, in a form to compare: with its pid it tells a process from a later one of the same number. */
export function startTime(pid: number): string | undefined {
  return statFields(pid)?.[19]
}

/** The command line of a process, or undefined where it cannot be told. */
export function commandLine(pid: number): string | undefined {
  if (process.platform === 'linux') return readProc(`/proc/${pid}/cmdline`)?.replaceAll('\0', ' ').trim()
  if (process.platform === 'win32') return undefined
  try {
    return execFileSync('ps', ['-ww', '-p', String(pid), '-o', 'command='], { encoding: 'utf8' }).trim()
  } catch {
    // `ps` ends with an error when there is no such process.
    return ''
  }
}

/** The folder a process works in, or undefined where it cannot be told. */
export function workingDirectory(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    // No /proc, no such process, or one of another user: the caller falls back to the command line.
    return undefined
  }
}

// The fields of /proc/<pid>/stat from the state on; the name before it is in parentheses and may contain anything.
function statFields(pid: number): string[] | undefined {
  const text = readProc(`/proc/${pid}/stat`)
  return text?.slice(text.lastIndexOf(')') + 2).split(' ')
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
