import type { Holdfast } from 'holdfast'
import { dieAt, recordPoints } from '../harness/faults.js'
import { startWorkerProcess } from '../harness/worker-process.js'
import type { DrainOptions } from '../kit/drain.js'
import { openKit, type Registrable } from '../kit/test-kit.js'
import type { KillPoint } from './kill-points.js'
import type { Life } from './life.js'

interface Orders {
  readonly connectionString: string
  readonly name: string
  readonly kill: KillPoint | null
}

type Said =
  | { readonly what: 'ready' }
  | { readonly what: 'drained'; readonly round: number; readonly points: readonly string[]; readonly error?: string }

/**
 * The worker of a crash test as a program of its own, which is really killed. Name the built file in `worker`.
 *
 * @example
 * // payment-worker.ts
 * await crashWorker({ register: [Payment], setup: (hf) => hf.handle(BookRisk, risk.book) })
 */
export async function crashWorker(options: {
  /** Processes and managers; a function where they need connections of their own. */
  readonly register?: readonly Registrable[] | ((connectionString: string) => readonly Registrable[])
  /** Registers handlers, and whatever else your workers do when they start. */
  readonly setup?: (hf: Holdfast, connectionString: string) => unknown
}): Promise<void> {
  const { connectionString, name, kill }: Orders = JSON.parse(process.argv[2] ?? '{}')
  const recorded = recordPoints()
  const deadly = kill ? dieAt(kill.point, kill.time) : undefined
  let begun = false
  const kit = await openKit({
    connectionString,
    name,
    worker: { concurrency: 1 },
    register: typeof options.register === 'function' ? options.register(connectionString) : (options.register ?? []),
    faults(point) {
      if (!begun) return
      void recorded.faults(point)
      return deadly?.(point)
    },
  })
  await options.setup?.(kit.hf, connectionString)
  begun = true
  process.on('message', ({ round, drain }: { round: number; drain: DrainOptions }) => {
    const drained = { what: 'drained', round, points: recorded.points } as const
    kit.drain(drain).then(
      () => say(drained),
      (problem: unknown) => say({ ...drained, error: String(problem) }),
    )
  })
  say({ what: 'ready' })
}

const say = (said: Said) => void process.send?.(said)

/** A worker in a process of its own, killed by SIGKILL at its point. */
export async function liveApart(
  script: URL,
  { connectionString, name, kill }: Omit<Orders, 'kill'> & { kill: KillPoint | undefined },
): Promise<Life> {
  const worker = startWorkerProcess(script, { connectionString, name, kill: kill ?? null } satisfies Orders)
  const died = worker.ended.then(() => undefined)
  let round = 0
  let points: readonly string[] = []
  const said = (message: unknown): message is Said =>
    typeof message === 'object' && message !== null && 'what' in message
  await Promise.race([
    worker.message('that it is ready', (message): message is Said => said(message) && message.what === 'ready', 60_000),
    died.then(() => {
      throw new Error(`the worker ${script.pathname} ended before it was ready: does it call crashWorker?`)
    }),
  ])
  return {
    starter: 'client',
    within: (work) => work(),
    died,
    points: () => points,
    async drain({ skipTime, timeout = '60s' }: DrainOptions = {}) {
      round += 1
      const asked = round
      worker.send({ round, drain: { timeout, ...(skipTime === undefined ? {} : { skipTime }) } })
      const answered = (message: unknown): message is Extract<Said, { what: 'drained' }> =>
        said(message) && message.what === 'drained' && message.round === asked
      const answer = await worker.message(`that drain ${asked} is done`, answered, 60_000)
      points = answer.points
      if (answer.error !== undefined) throw new Error(answer.error)
    },
    end: () => worker.kill(),
  }
}
