import { setTimeout as sleep } from 'node:timers/promises'
import type { By, Trouble } from 'holdfast'
import type { Payments } from '../app.js'
import { PAYMENT, SCHEDULED_PAYMENT } from '../models/course.js'
import { STEP_PAYMENT } from '../models/payment-manager.js'

/** Takes care of work in troubleshooting. */
export interface Operator {
  /** One round; returns how many items needed an operation. */
  look(): Promise<number>
  /** The operations so far. */
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
 * The simulated operator: retries failed work, and cancels work that gets no response or fails again and again. All of it
 * through the calls that a person would make.
 */
export function startOperator({ hf }: Payments, options: Options = {}): Operator {
  const { everyMs = 500, onTrouble } = options
  const ending = new AbortController()
  const tried = new Map<string, number>()
  const done = { retried: 0, cancelled: 0 }

  /** True while another retry makes sense; after that the work is cancelled. */
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
    const troubled = (await hf.trouble.list({ model: 'processes', ...process, limit: AT_ONCE })).items
    // A payment whose command is in troubleshooting continues once the command is repaired.
    const ours = troubled.filter(({ code }) => code !== 'COMMAND_IN_TROUBLESHOOTING')
    const hopeless = ours.filter(({ id, code }) => !mayRetry(id, code))
    const toCancel = hopeless.filter(({ code }) => code !== 'COMPENSATION_FAILED')
    return act(
      ours.filter((one) => !toCancel.includes(one)),
      toCancel,
    )
  }

  async function lookAtCommands(): Promise<number> {
    const troubled = (await hf.trouble.list({ model: 'commands', domain: PAYMENT.domain, limit: AT_ONCE })).items
    const toRetry = troubled.filter(({ id, type }) => mayRetry(id) || type in undoing)
    return act(
      toRetry,
      troubled.filter((one) => !toRetry.includes(one)),
    )
  }

  async function act(toRetry: readonly Trouble[], toCancel: readonly Trouble[]): Promise<number> {
    await hf.trouble.retry(toRetry, by('it may work now'))
    await hf.trouble.cancel(toCancel, by('no hope'))
    return count(toRetry.length, toCancel.length)
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

/** These are retried until they succeed, so that no compensation stays incomplete. */
const undoing = { Recall: true, UnwindFx: true, UnwindRisk: true, GiveBack: true }
