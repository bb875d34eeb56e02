import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Measurement } from './measure.js'
import { type Answer, isAnswer, type MeasureOrder, type Order, type PrepareOrder } from './order.js'

/** Every measured system gets a process of its own: its CPU, its memory, and no code that another system has warmed up. */
export interface Children {
  prepare(order: Omit<PrepareOrder, 'phase'>): Promise<void>
  measure(order: Omit<MeasureOrder, 'phase'>): Promise<Measurement>
}

export function childProcesses(script: URL, signal: AbortSignal): Children {
  return {
    async prepare(order) {
      await obey(script, { ...order, phase: 'prepare' }, signal)
    },
    async measure(order) {
      const answer = await obey(script, { ...order, phase: 'measure' }, signal)
      if (answer.phase !== 'measure') throw new Error(`a measuring process answered ${answer.phase}`)
      return answer.measurement
    },
  }
}

async function obey(script: URL, order: Order, signal: AbortSignal): Promise<Answer> {
  signal.throwIfAborted()
  // Our standard output belongs to the results: what a system prints goes to standard error.
  const child = fork(script, [JSON.stringify(order)], { stdio: ['ignore', 2, 2, 'ipc'] })
  const kill = () => child.kill('SIGKILL')
  signal.addEventListener('abort', kill)
  let answer: Answer | undefined
  child.on('message', (message) => {
    if (isAnswer(message)) answer = message
  })
  try {
    const [code, by] = await once(child, 'exit')
    signal.throwIfAborted()
    if (answer === undefined)
      throw new Error(`its process ended with ${by ?? `exit code ${code}`} and without an answer`)
    if (answer.phase === 'failed') throw new Error(answer.problem)
    return answer
  } finally {
    signal.removeEventListener('abort', kill)
  }
}
