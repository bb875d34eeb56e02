import { EmbeddedPostgresError, systemErrorCode } from '../errors.js'
import { isAlive, startTime } from '../process-table.js'
import { until } from '../waiting.js'
import { isPostmasterOf } from './pid-file.js'

export type StopMode = 'fast' | 'immediate'

// Fast: sessions are ended, everything is written to disk. Immediate: like a crash, recovered at the next start.
const steps = { fast: ['SIGINT', 'SIGQUIT', 'SIGKILL'], immediate: ['SIGQUIT', 'SIGKILL'] } as const
const STEP_TIMEOUT_MS = { SIGINT: 15_000, SIGQUIT: 10_000, SIGKILL: 10_000 }

/** Stops the server, with a stronger signal each time it does not stop within the time limit. */
export async function stopPostmaster(pid: number, dataDir: string, mode: StopMode): Promise<void> {
  for (const signal of steps[mode]) {
    if (await signalAndWait(pid, dataDir, signal)) return
  }
  throw new EmbeddedPostgresError(
    'HF_EMBEDDED_STOP_FAILED',
    `The PostgreSQL server with pid ${pid} on ${dataDir} did not stop, not even by SIGKILL.`,
    'It waits for the disk or belongs to another user; look at it with `ps`, then try again.',
  )
}

/** Ends the server without warning, as a crash does. */
export async function killPostmaster(pid: number, dataDir: string): Promise<void> {
  await signalAndWait(pid, dataDir, 'SIGKILL')
}

/** Sends a signal to the server, if it still is one. */
export function signalPostmaster(pid: number, dataDir: string, signal: NodeJS.Signals): void {
  if (!isPostmasterOf(pid, dataDir)) return
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (systemErrorCode(error) !== 'ESRCH') throw error
  }
}

async function signalAndWait(pid: number, dataDir: string, signal: keyof typeof STEP_TIMEOUT_MS): Promise<boolean> {
  if (!isPostmasterOf(pid, dataDir)) return true
  const started = startTime(pid)
  signalPostmaster(pid, dataDir, signal)
  // Waits for the end of the process: a postmaster that is just ending has neither command line nor folder, and still has its port.
  const isThere = () => isAlive(pid) && startTime(pid) === started
  const gone = await until(STEP_TIMEOUT_MS[signal], () => (isThere() ? undefined : true))
  return gone === true
}
