import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Run, System, Task } from '../../harness/workload.js'
import { version } from '../../libraries/holdfast.js'
import { version as flexibleVersion, openFlexible } from '../../libraries/rate-limiter-flexible.js'
import { mostInASecond, mostOverBound, percentUsed } from './bound.js'
import { prepareLimit } from './grants.js'

/** What a worker process is told with its argument. */
export interface RateOrder {
  readonly library: 'holdfast' | 'flexible'
  readonly connectionString: string
  readonly key: string
  readonly rate: number
  readonly grants: number
  readonly callers: number
}

/** What it tells at its end. */
export interface RateReport {
  readonly grants: readonly number[]
  readonly cpu: number
}

const KEY = 'bank'
const RATE = 500
const CALLERS = 20

/** Worker processes with more demand than the limit allows; value: how much of it they use. */
export function holdfastRate(processes: number, burst: number): System {
  return {
    name: 'holdfast',
    version,
    role: 'holdfast',
    config: { processes, rate: RATE, burst },
    anythingLeft: 'select false',
    prepare: ({ connectionString }) => prepareLimit(connectionString, KEY, { ticketsPerSecond: RATE, burst }),
    open: (task) => open(task, 'holdfast', processes, burst),
  }
}

/** Its window is a second, which it grants at once: that is its burst. */
export function flexibleRate(processes: number): System {
  return {
    name: 'rate-limiter-flexible',
    version: flexibleVersion,
    role: 'peer',
    config: { processes, rate: RATE, burst: RATE },
    anythingLeft: 'select false',
    prepare: async ({ connectionString }) => {
      await (await openFlexible(connectionString, { points: RATE, duration: 1 }, 1)).close()
    },
    open: (task) => open(task, 'flexible', processes, RATE),
  }
}

async function open(
  { connectionString, items }: Task,
  library: RateOrder['library'],
  processes: number,
  burst: number,
): Promise<Run> {
  const grants = Math.ceil(items / processes)
  const order: RateOrder = { library, connectionString, key: KEY, rate: RATE, grants, callers: CALLERS }
  const script = new URL('./rate-worker.js', import.meta.url)
  const children = Array.from({ length: processes }, () =>
    fork(script, [JSON.stringify(order)], { stdio: ['ignore', 2, 2, 'ipc'] }),
  )
  await Promise.all(children.map((child) => nextMessage(child)))
  let reports: readonly RateReport[] = []
  return {
    async work() {
      const told = children.map((child) => nextMessage<RateReport>(child))
      for (const child of children) child.send('start')
      reports = await Promise.all(told)
    },
    figures() {
      const all = reports.flatMap((report) => report.grants)
      return {
        value: percentUsed(all, RATE, burst),
        details: { 'over the bound': mostOverBound(all, RATE, burst), 'most in 1 s': mostInASecond(all) },
        costItems: all.length,
      }
    },
    moreCpu: () => reports.reduce((sum, { cpu }) => sum + cpu, 0),
    async close() {
      await Promise.all(
        children.map(async (child) => {
          const ended = once(child, 'exit')
          child.disconnect()
          await ended
        }),
      )
    },
  }
}

async function nextMessage<Message>(child: ChildProcess): Promise<Message> {
  const ended = new AbortController()
  const gone = once(child, 'exit', { signal: ended.signal }).then(([code]) => {
    throw new Error(`a worker process ended with exit code ${code}`)
  })
  try {
    const [message] = await Promise.race([once(child, 'message'), gone])
    return message
  } finally {
    gone.catch(() => undefined)
    ended.abort()
  }
}
