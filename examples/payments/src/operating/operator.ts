import { setTimeout as sleep } from 'node:timers/promises'
import type { By } from 'holdfast'
import type { Payments } from '../app.js'
import { PAYMENT, SCHEDULED_PAYMENT } from '../models/course.js'
import { STEP_PAYMENT } from '../models/payment-manager.js'

/** Somebody who looks after what is in troubleshooting. */
export interface Operator {
  /** One look; answers how much there was to do. */
  look(): Promise<number>
  /** What was done so far. */
  readonly done: { readonly retried: number; readonly cancelled: number }
  stop(): Promise<void>
}

interface Options {
  readonly everyMs?: number
  readonly onTrouble?: (error: unknown) => void
}

const AT_ONCE = 500
const by = (reason: string): By => ({ actor: 'operator', reason })

/**
 * The simulated operator: tries again what failed, cancels what nobody answers and what fails again and again. All of it
 * through the calls that a person would make.
 */
export function startOperator({ hf, definitions }: Payments, options: Options = {}): Operator {
  const { everyMs = 500, onTrouble } = options
  const ending = new AbortController()
  const tried = new Map<string, number>()
  const done = { retried: 0, cancelled: 0 }

  /** True while there is hope; from then on it is cancelled. */
  function mayRetry(id: string, code = ''): boolean {
    const times = (tried.get(id) ?? 0) + 1
    tried.set(id, times)
    return times <= (code === 'WAIT_TIMEOUT' ? 1 : 2)
  }

  function count(retried: number, cancelled: number): number {
    done.retried += retried
    done.cancelled += cancelled
    return retried + cancelled
  }

  async function lookAtProcesses(process: typeof PAYMENT | typeof SCHEDULED_PAYMENT | typeof STEP_PAYMENT) {
    const troubled = await hf.processes.troubles.list({ ...process, limit: AT_ONCE })
    // Whose command is in troubleshooting is helped by helping the command.
    const ours = troubled.filter(({ error }) => error.code !== 'COMMAND_IN_TROUBLESHOOTING')
    const hopeless = ours.filter(({ error, id }) => !mayRetry(id, error.code))
    const toCancel = new Set(hopeless.filter(({ error }) => error.code !== 'COMPENSATION_FAILED').map(({ id }) => id))
    const toRetry = ours.map(({ id }) => id).filter((id) => !toCancel.has(id))
    if (toRetry.length > 0) await hf.processes.retryMany(process, toRetry, by('it may work now'))
    if (toCancel.size > 0) await hf.processes.cancelMany(process, [...toCancel], by('no hope'), { compensate: true })
    return count(toRetry.length, toCancel.size)
  }

  async function lookAtCommands(): Promise<number> {
    const troubled = await hf.troubleshooting.list({ domain: PAYMENT.domain, limit: AT_ONCE })
    let handled = 0
    for (const command of Object.values(definitions.commands)) {
      const ids = troubled.filter(({ type }) => type === command.type).map(({ commandId }) => commandId)
      const undoes = command.type in undoing
      const toRetry = ids.filter((id) => mayRetry(id) || undoes)
      const toCancel = ids.filter((id) => !toRetry.includes(id))
      if (toRetry.length > 0) await hf.troubleshooting.retryMany(command, toRetry, by('it may work now'))
      if (toCancel.length > 0) await hf.troubleshooting.cancelMany(command, toCancel, by('no hope'))
      handled += count(toRetry.length, toCancel.length)
    }
    return handled
  }

  async function look(): Promise<number> {
    let handled = await lookAtCommands()
    for (const process of [PAYMENT, SCHEDULED_PAYMENT, STEP_PAYMENT]) handled += await lookAtProcesses(process)
    return handled
  }

  async function run(): Promise<void> {
    while (!ending.signal.aborted) {
      await look().catch((error: unknown) => onTrouble?.(error))
      await sleep(everyMs, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }

  const running = run()
  return {
    look,
    done,
    async stop() {
      ending.abort()
      await running
    },
  }
}

/** These are retried until they work: what is half undone is not left so. */
const undoing = { Recall: true, UnwindFx: true, UnwindRisk: true, GiveBack: true }
