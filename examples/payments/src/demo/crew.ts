import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

/** The demo's worker processes: each that dies is replaced. */
export interface Crew {
  readonly size: number
  /** Kills the worker that has run longest with SIGKILL; returns its process id, undefined if no other worker runs. */
  kill(): number | undefined
  readonly killed: number
  /** Lets them finish what they have begun. */
  stop(): Promise<void>
}

const script = new URL('../worker-process.js', import.meta.url)
/** Longer than a worker takes to drain. */
const DRAIN = 15_000

export function startCrew(size: number, options: object): Crew {
  const crew = new Map<ChildProcess, { running: boolean }>()
  let stopping = false
  let killed = 0

  function add(): void {
    const child = fork(script, [JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    const member = { running: false }
    crew.set(child, member)
    child.once('message', () => {
      member.running = true
    })
    child.once('exit', () => {
      crew.delete(child)
      // Not at once: a worker that cannot start must not be restarted in a tight loop.
      if (!stopping) setTimeout(() => !stopping && add(), member.running ? 0 : 1_000).unref()
    })
  }

  async function end(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), DRAIN)
    await gone
    clearTimeout(late)
  }

  for (let n = 0; n < size; n += 1) add()
  return {
    get size() {
      return crew.size
    },
    get killed() {
      return killed
    },
    kill() {
      const [victim, another] = [...crew].filter(([, { running }]) => running).map(([child]) => child)
      // If a worker takes longer to start than the time between two kills, nothing would ever be done.
      if (!victim || (!another && size > 1) || !victim.kill('SIGKILL')) return undefined
      killed += 1
      return victim.pid
    },
    async stop() {
      stopping = true
      await Promise.all([...crew.keys()].map((child) => end(child)))
    },
  }
}
