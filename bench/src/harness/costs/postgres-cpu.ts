import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts the CPU time it shows in /proc in hundredths of a second, whatever the kernel's own clock. */
const MICROSECONDS_PER_TICK = 10_000

/**
 * The server's main process, found by one of its backends. Undefined where there is no /proc, and when the server runs
 * elsewhere: the title of a backend names its database, and ours has a name that no other server's has.
 */
export function findPostmaster(backend: number, database: string): number | undefined {
  try {
    const title = readFileSync(`/proc/${backend}/cmdline`, 'utf8')
    return title.startsWith('postgres') && title.includes(database) ? readProcess(backend)?.parent : undefined
  } catch {
    // No /proc, or no such process: the server is not here.
    return undefined
  }
}

/** Microseconds of CPU that the server has used so far, with all its processes, also those that have ended. */
export function postgresCpu(postmaster: number): number {
  let ticks = 0
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const pid = Number(entry)
    const process = readProcess(pid)
    if (process === undefined) continue
    if (pid === postmaster) ticks += process.own + process.endedChildren
    else if (process.parent === postmaster) ticks += process.own
  }
  return ticks * MICROSECONDS_PER_TICK
}

interface ProcessTimes {
  readonly parent: number
  readonly own: number
  readonly endedChildren: number
}

function readProcess(pid: number): ProcessTimes | undefined {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    // It ended between the listing and now; its time is in its parent's sum of ended children.
    return undefined
  }
  // The second field is the program's name in parentheses, which may hold blanks; from the third on all are plain.
  const [, parent, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [user = 0, system = 0, childrenUser = 0, childrenSystem = 0] = rest.slice(9, 13).map(Number)
  return { parent: Number(parent), own: user + system, endedChildren: childrenUser + childrenSystem }
}
