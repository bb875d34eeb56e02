import type { Effects, FaultTestOptions, Sql } from '@holdfast/testing'
import { createEffects, expectEveryEffectKeptOrUndone } from '@holdfast/testing'
import {
  BusinessError,
  defineCommand,
  defineProcess,
  type Holdfast,
  HoldfastError,
  type ProcessContext,
  StepFailed,
} from 'holdfast'
import { z } from 'zod'
import { FAULTS } from './faults.js'
import { type CallNode, type Node, type ProcessProgram, processProgram } from './process-program.js'

const by = { actor: 'ann', reason: 'generated' }

const options = {
  data: z.object({ execution: z.string(), name: z.string() }),
  retry: { maxAttempts: 3, delays: ['10ms'] },
  timeout: '60ms',
} as const
const Pay = defineCommand('generated', 'Pay', options)
// The bank does not recognise repetitions of it: K-20.
const PayOnce = defineCommand('generated', 'PayOnce', { ...options, atMostOnce: true })

/** Processes that interpret generated programs, on a simulated bank. */
export function generatedProcesses(): Omit<FaultTestOptions<World>, 'seeds'> {
  return {
    world: (seed) => new World(createEffects({ seed, faults: FAULTS })),
    register: ({ Program }) => [Program],
    setup(hf, { bank }) {
      for (const command of [Pay, PayOnce]) {
        const once = command === PayOnce
        hf.handle(command, ({ execution, name }, { idempotencyKey, signal }) =>
          bank.perform({ execution, name, idempotencyKey, signal, once }),
        )
      }
    },
    async start(hf, { Program }, seed) {
      const program = processProgram(seed)
      const { id } = await hf.start(Program, { program }, { immediate: false })
      return id
    },
    cancel: (hf, id, { Program }) => hf.process(Program, id).cancel(by, { compensate: true }),
    attend,
    invariant: ({ world, sql }) => explained(sql, () => expectEveryEffectKeptOrUndone(world.bank, sql)),
  }
}

class World {
  readonly bank: Effects
  readonly Program: ReturnType<typeof interpreter>

  constructor(bank: Effects) {
    this.bank = bank
    this.Program = interpreter(bank)
  }
}

/** A failure with the record of each process that it names. */
async function explained(sql: Sql, check: () => Promise<void>): Promise<void> {
  try {
    await check()
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const ids = [...new Set(message.match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g))]
    const rows = await sql<{ line: string }>(historyText, [ids.slice(0, 5)])
    rows.push(...(await sql<{ line: string }>(standingText, [ids.slice(0, 5)])))
    throw new Error([message, ...rows.map(({ line }) => `    ${line}`)].join('\n'), { cause: error })
  }
}

const historyText = `
  select process_id || ' ' || seq || ' epoch ' || epoch || ': ' || concat_ws(' ', kind, name, status, 'attempt', attempt) as line
  from holdfast.process_history
  where process_id = any ($1::uuid[])
  order by process_id, generation, seq`

const standingText = `
  select concat_ws(' ', id, status, 'due', due_at, 'responses', responses, 'cancel', cancel, 'clock', holdfast.now()) as line
  from holdfast.process
  where id = any ($1::uuid[])
  union all
  select concat_ws(' ', data ->> 'execution', data ->> 'name', 'is command', command_id, status, 'attempts', attempts, error_code)
  from holdfast.command
  where data ->> 'execution' = any ($1::text[])
  union all
  select concat_ws(' ', process_id, 'response', name, data) from holdfast.process_response where process_id = any ($1::uuid[])`

/** A person lets them go on a few times, and then gives them up; what became of a command is asked of the bank. */
async function attend(hf: Holdfast, { Program, bank }: World, _: readonly string[], round: number): Promise<void> {
  const commands = { domain: Pay.domain }
  for (const { id: commandId } of (await hf.trouble.list({ model: 'commands', ...commands, limit: 1_000 })).items) {
    const { data } = await hf.command(Pay, commandId).get()
    const truth = await bank.inquire(data as { execution: string; name: string })
    if (truth !== 'notDone') await hf.command(Pay, commandId).complete(by, truth.done)
    else if (round < 4) await hf.command(Pay, commandId).retry(by, { notDone: true })
    else await hf.command(Pay, commandId).cancel(by)
  }
  const { domain, type } = Program
  const troubled = (await hf.processes.list({ domain, type, status: 'WAITING_FOR_TSQ', limit: 1_000 })).items
  for (const { id, error, state } of troubled) {
    const { program } = state as { program: ProcessProgram }
    if (error?.code === 'OUTCOME_UNKNOWN' && round < 8) await resolve(hf, { Program, bank }, id, program)
    else if (round < 3) await refusable(hf.process(Program, id).retry(by, { deadline: '1h' }))
    else await refusable(hf.process(Program, id).cancel(by, { compensate: true }))
  }
}

/** Tells what became of calls that nobody may repeat: the bank knows. */
async function resolve(hf: Holdfast, { Program, bank }: World, id: string, program: ProcessProgram): Promise<void> {
  for (const name of onceIn(program.body)) {
    const truth = await bank.inquire({ execution: id, name })
    const process = hf.process(Program, id)
    await refusable(
      truth === 'notDone'
        ? process.retry(by, { notDone: true, step: name })
        : process.complete(by, truth.done, { step: name }),
    )
  }
}

function onceIn(node: Node): string[] {
  if ('nodes' in node) return node.nodes.flatMap(onceIn)
  return node.do === 'call' && node.once ? [node.name] : []
}

/** Somebody, or the process itself, was quicker. */
async function refusable(work: Promise<unknown>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.status >= 500) throw error
  }
}

function interpreter(bank: Effects) {
  const Program = defineProcess('generated', 'Program', {
    state: z.object({ program: z.custom<ProcessProgram>((value) => typeof value === 'object') }),
    deadlineAction: 'compensate',
    deadline: ({ program }) => program.deadline,
    async execute(ctx, { program }) {
      await interpret(ctx, program.body)
      if (program.end === 'throws') throw new BusinessError('thrown by the program', { code: 'THROWN' })
    },
  })
  type Context = ProcessContext

  async function interpret(ctx: Context, node: Node): Promise<void> {
    const { id: execution } = ctx
    switch (node.do) {
      case 'sequence':
        for (const next of node.nodes) await interpret(ctx, next)
        return
      case 'all':
        await Promise.all(node.nodes.map((next) => interpret(ctx, next)))
        return
      case 'call':
        await call(ctx, node)
        return
      case 'command':
        await ctx.command(
          node.name,
          node.once ? PayOnce : Pay,
          { execution, name: node.name },
          {
            timeout: node.timeout,
            onTimeout: 'compensate',
            ...undoOf(ctx, node.name),
          },
        )
        return
      case 'child':
        await ctx.child(
          node.name,
          Child,
          { program: { body: node.body, end: 'returns' } },
          { timeout: '10m', onTimeout: 'compensate' },
        )
        return
      case 'wait':
        await ctx.wait(node.name, () => false, { timeout: '5s', onTimeout: node.onTimeout })
        return
      case 'sleep':
        await ctx.sleep(node.name, '3s')
    }
  }

  async function call(ctx: Context, { name, once, inquires, maxAttempts, caught }: CallNode): Promise<void> {
    const { id: execution } = ctx
    try {
      await ctx.step(
        name,
        ({ idempotencyKey, signal }) => bank.perform({ execution, name, idempotencyKey, signal, once }),
        {
          retry: { maxAttempts, delay: '10ms' },
          timeout: '40ms',
          ...(caught ? { onFailure: 'throw' } : {}),
          ...(once ? { atMostOnce: true } : {}),
          ...(inquires ? { inquire: () => bank.inquire({ execution, name }) } : {}),
          ...undoOf(ctx, name),
        },
      )
    } catch (error) {
      if (!caught || !(error instanceof StepFailed)) throw error
    }
  }

  function undoOf({ id: execution }: Context, name: string) {
    return {
      compensate: (_: unknown, { idempotencyKey, signal }: { idempotencyKey: string; signal: AbortSignal }) =>
        bank.undo({ execution, name, idempotencyKey, signal }),
      compensateRetryDelay: '20ms',
    } as const
  }

  // By its name, because a definition cannot use itself before it is made.
  const Child = { name: Program.name } as typeof Program
  return Program
}
