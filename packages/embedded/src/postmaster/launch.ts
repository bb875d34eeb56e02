import { type ChildProcess, spawn } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import type { Account } from '../account.js'
import type { Binaries } from '../binaries/programs.js'
import { EmbeddedPostgresError } from '../errors.js'
import { spawnContext } from '../program.js'
import { until } from '../waiting.js'
import { disownPidFile, isPostmasterOf, readPidFile } from './pid-file.js'
import { freePort, isPortFree, isServerRunning } from './probe.js'
import { logPath, openLog, type ServerLog } from './server-log.js'

// Recovery after a crash replays what was written since the last checkpoint, which takes a while on a slow disk.
const START_TIMEOUT_MS = 120_000
const ORPHANS_TIMEOUT_MS = 30_000
const ORPHANS_PAUSE_MS = 100
const PORT_ATTEMPTS = 5

export interface LaunchPlan {
  readonly dataDir: string
  readonly binaries: Binaries
  readonly account: Account | undefined
  readonly settings: Record<string, string>
  /** The port that must be used; otherwise `likedPort` if free, else any free one. */
  readonly port?: number | undefined
  readonly likedPort?: number | undefined
}

export interface Launched {
  readonly pid: number
  readonly port: number
}

/** Starts the server and resolves when it accepts connections. */
export async function launch(plan: LaunchPlan): Promise<Launched> {
  const orphansEnd = performance.now() + ORPHANS_TIMEOUT_MS
  for (let portAttempt = 1; ; ) {
    const port = await choosePort(plan, portAttempt)
    const outcome = await launchOnce(plan, port)
    if ('pid' in outcome) return outcome
    if (isPortConflict(outcome.log)) {
      if (plan.port !== undefined || portAttempt++ === PORT_ATTEMPTS) throw portTaken(port, outcome.log)
    } else if (!isHeldByOrphans(outcome.log) || performance.now() > orphansEnd) {
      throw startFailed(plan, port, outcome)
    } else {
      await delay(ORPHANS_PAUSE_MS)
    }
  }
}

async function choosePort(plan: LaunchPlan, attempt: number): Promise<number> {
  if (plan.port !== undefined) return requireFree(plan.port)
  if (attempt === 1 && plan.likedPort !== undefined && (await isPortFree(plan.likedPort))) return plan.likedPort
  return freePort()
}

/** The port, if it is free. */
export async function requireFree(port: number): Promise<number> {
  if (await isPortFree(port)) return port
  throw portTaken(port)
}

interface Failure {
  readonly why: string
  readonly log: string
}

async function launchOnce(plan: LaunchPlan, port: number): Promise<Launched | Failure> {
  disownStalePidFile(plan.dataDir)
  const log = openLog(plan.dataDir, plan.account)
  try {
    const child = spawnServer(plan, port, log)
    const outcome = await until(START_TIMEOUT_MS, () => lookAt(child, plan.dataDir, port))
    if (outcome === 'ready' && child.pid !== undefined) return { pid: child.pid, port }
    if (outcome === undefined) child.kill('SIGQUIT')
    return { why: outcome ?? `it was not ready within ${START_TIMEOUT_MS / 1000} s`, log: log.tail() }
  } finally {
    log.close()
  }
}

function disownStalePidFile(dataDir: string): void {
  const file = readPidFile(dataDir)
  if (file !== undefined && !isPostmasterOf(file.pid, dataDir)) disownPidFile(dataDir)
}

function spawnServer(plan: LaunchPlan, port: number, log: ServerLog): ChildProcess {
  const fixed = { listen_addresses: '127.0.0.1', unix_socket_directories: '' }
  const settings = Object.entries({ ...plan.settings, ...fixed }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const { postgres } = plan.binaries
  const child = spawn(postgres, ['-D', plan.dataDir, '-p', String(port), ...settings], {
    ...spawnContext(postgres, plan.account),
    stdio: ['ignore', log.fd, log.fd],
    // A process group of its own: Ctrl-C in the terminal is for the application, which decides whether to stop its server.
    detached: true,
  })
  child.unref()
  // Its exit code says so too; without a listener the error would end the process.
  child.on('error', () => undefined)
  return child
}

async function lookAt(child: ChildProcess, dataDir: string, port: number): Promise<string | undefined> {
  if (child.pid === undefined) return 'it could not be started'
  if (child.exitCode !== null) return `it ended with code ${child.exitCode}`
  if (child.signalCode !== null) return `it was ended by ${child.signalCode}`
  const file = readPidFile(dataDir)
  if (file?.pid !== child.pid || file.status !== 'ready') return undefined
  return (await isServerRunning(port)) ? 'ready' : undefined
}

function isPortConflict(log: string): boolean {
  return log.includes('could not create any TCP/IP sockets')
}

// After a SIGKILL of the postmaster its children need a moment to notice; until then the data is theirs.
function isHeldByOrphans(log: string): boolean {
  return log.includes('pre-existing shared memory block')
}

function portTaken(port: number, log?: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_PORT_TAKEN',
    `Port ${port} on 127.0.0.1 is in use by another program.`,
    'Stop that program, pass another port, or leave the option port out to get a free one.',
    log === undefined ? {} : { log },
  )
}

function startFailed(plan: LaunchPlan, port: number, { why, log }: Failure): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_START_FAILED',
    `PostgreSQL ${plan.binaries.version} did not start on port ${port} with the data in ${plan.dataDir}: ${why}.`,
    `Its log (${logPath(plan.dataDir)}) says why; a wrong name or value in the option settings is the usual reason.`,
    { log },
  )
}
