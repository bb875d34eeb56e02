import { BusinessError, defineProcess, PermanentError, type ProcessContext, StepFailed, TransientError } from 'holdfast'
import { z } from 'zod'
import { MAX_ATTEMPTS, type Node, type Outcome, type Program } from './program.js'

/** The calls of user code in one run of a program, over all its executions. */
export interface Witness {
  /** Asked when a call begins: a program whose worker is dead calls nobody. */
  readonly dead: () => boolean
  /** A call begins; `log` is what the program has seen so far. */
  called(processId: string, call: string, log: readonly string[]): Promise<void>
  /** The same of a side effect, which does not say which one it is. */
  saw(log: readonly string[]): void
  undone(processId: string, call: string): Promise<void>
  wasCalled(call: string): boolean
}

interface State {
  program: Program
  total: number
  /** What has happened, as the program saw it, in its order. */
  log: string[]
}

type Context = ProcessContext<{ ping: z.ZodObject<{ n: z.ZodNumber }> }, State>

/** A process that does what its state says. */
export function interpreter(domain: string, witness: Witness) {
  return defineProcess(domain, 'Program', {
    // No other worker's code will ever fit: what does not fit is to show at once.
    mismatchGrace: 0,
    state: z.object({
      program: z.custom<Program>((value) => typeof value === 'object'),
      total: z.number().default(0),
      log: z.array(z.string()).default([]),
    }),
    responses: {
      ping: {
        data: z.object({ n: z.number() }),
        apply: (state) => {
          state.total += 1
        },
      },
    },
    async execute(ctx, state) {
      await interpret(ctx, state, witness, state.program.body)
      const { end } = state.program
      if (end === 'throws') throw new BusinessError('thrown by the program', { code: 'THROWN' })
      if (end !== 'returns') {
        await ctx.step('end', callOf(ctx, state, witness, [end]), { retry: { maxAttempts: 2, delay: '5ms' } })
      }
      return state.log.map(placeOf).filter(isSettled).sort()
    },
  })
}

/** The place in the program that an entry of its log is about. */
export const placeOf = (entry: string): string => entry.split(' ')[0] ?? ''
/** Whether a place is reached in every run, whoever is faster. */
export const isSettled = (place: string): boolean => !place.startsWith('raced')

async function interpret(ctx: Context, state: State, witness: Witness, node: Node): Promise<void> {
  const on = (next: Node) => interpret(ctx, state, witness, next)
  switch (node.do) {
    case 'sequence':
      for (const next of node.nodes) await on(next)
      return
    case 'all':
      await Promise.all(node.nodes.map(on))
      return
    case 'race':
      await Promise.race(node.nodes.map(on))
      return
    case 'loop':
      for (let time = 0; time < node.times; time++) await on(node.node)
      return
    default:
      await callOut(ctx, state, witness, node)
      // All that a replay has to meet again: the order, the responses, the clock and the dice.
      state.log.push(`${node.id} ${state.total} ${ctx.now().getTime()} ${ctx.random()}`)
  }
}

async function callOut(
  ctx: Context,
  state: State,
  witness: Witness,
  node: Exclude<Node, { nodes: Node[] } | { node: Node }>,
): Promise<unknown> {
  const { id } = node
  const undo = {
    compensate: (_: unknown, { idempotencyKey }: { idempotencyKey: string }) =>
      alive(witness, () => witness.undone(ctx.id, callIn(idempotencyKey))),
  }
  switch (node.do) {
    case 'step':
      return ctx.step(id, callOf(ctx, state, witness, node.outcomes), {
        retry: { maxAttempts: MAX_ATTEMPTS, delay: '5ms' },
        ...(node.undo ? undo : {}),
        ...(node.once ? onceOnly(witness) : {}),
      })
    case 'try':
      try {
        return await ctx.step(id, callOf(ctx, state, witness, node.outcomes), {
          retry: { maxAttempts: 2, delay: '5ms' },
          onFailure: 'throw',
        })
      } catch (error) {
        if (!(error instanceof StepFailed)) throw error
        return undefined
      }
    case 'transaction':
      return ctx.transaction(
        id,
        async (tx) => {
          await tx.query('insert into booking values ($1, $2)', [ctx.id, JSON.stringify(state.log)])
          const failed = await tx.query(failures, [ctx.id, id])
          if (node.failsFirst && failed.rows.length === 0) throw new TransientError('not yet', { code: 'NOT_YET' })
        },
        { retry: { maxAttempts: 2, delay: '5ms' }, ...(node.undo ? undo : {}) },
      )
    case 'sideEffect':
      return ctx.sideEffect(id, () => alive(witness, async () => witness.saw([...state.log])))
    case 'wait':
      return ctx.wait(id, () => state.total >= node.need)
    case 'event':
      return ctx.event(id, 'ping')
    case 'sleep':
      return ctx.sleep(id, '5ms')
  }
}

const failures = `
  select from holdfast.process_history where process_id = $1 and name = $2 and status = 'WAITING_RETRY'`

function callOf(ctx: Context, state: State, witness: Witness, outcomes: readonly Outcome[]) {
  return ({ attempt, idempotencyKey }: { attempt: number; idempotencyKey: string }) =>
    alive(witness, async () => {
      await witness.called(ctx.id, callIn(idempotencyKey), [...state.log])
      const outcome = outcomes[attempt - 1] ?? outcomes.at(-1)
      if (outcome === 'transient') throw new TransientError('not yet', { code: 'NOT_YET' })
      if (outcome === 'business') throw new BusinessError('no', { code: 'NO' })
      if (outcome === 'permanent') throw new PermanentError('broken', { code: 'BROKEN' })
    })
}

const onceOnly = (witness: Witness) => ({
  atMostOnce: true,
  inquire: ({ idempotencyKey }: { idempotencyKey: string }) =>
    witness.wasCalled(callIn(idempotencyKey)) ? ({ done: undefined } as const) : ('notDone' as const),
})

/** `step-3#2`, out of the key under which the outside world knows it. */
const callIn = (idempotencyKey: string): string => idempotencyKey.split('/')[1] ?? ''

function alive<T>(witness: Witness, work: () => Promise<T>): Promise<T> {
  return witness.dead() ? new Promise<never>(() => undefined) : work()
}
