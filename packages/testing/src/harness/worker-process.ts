import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { waitFor } from './wait-for.js'

/** A real process that a test starts, stops, freezes and kills. */
export interface WorkerProcess {
  readonly pid: number
  /** Everything the process has sent with `process.send`, in order. */
  readonly messages: readonly unknown[]
  /** The first message so far, or to come within 60 s or the time given, that fits. */
  message<T>(what: string, fits: (message: unknown) => message is T, timeout?: number): Promise<T>
  send(message: object): void
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** SIGSTOP: a process that hangs. */
  freeze(): void
  /** SIGCONT: a zombie that wakes up. */
  thaw(): void
  /** Resolves with how it ended. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
}

const alive = new Set<ChildProcess>()
// A test file that fails must not leave processes behind.
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

/**
 * Starts a built script (`dist/….js`) as a child process with an IPC channel.
 *
 * @example
 * const worker = startWorkerProcess(new URL('../dist/worker.js', import.meta.url), { connectionString })
 * await worker.kill()
 */
export function startWorkerProcess(
  script: URL,
  options: object,
  /** Options of Node itself: a small heap, say. */
  execArgv: readonly string[] = [],
): WorkerProcess {
  const child = fork(script, [JSON.stringify(options)], {
    execArgv: [...execArgv],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const messages: unknown[] = []
  alive.add(child)
  child.on('message', (message) => messages.push(message))
  const ended = once(child, 'exit').then(([code, signal]) => {
    alive.delete(child)
    return { code, signal }
  })
  return {
    get pid() {
      return child.pid ?? 0
    },
    messages,
    message: (what, fits, timeout = 60_000) =>
      waitFor(`process ${child.pid} says ${what}`, () => messages.find(fits), { timeout }),
    send: (message) => void child.send(message),
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    ended,
  }
}
