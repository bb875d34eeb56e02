import { defineCommand, defineProcess, defineWorkflow, type Holdfast } from 'holdfast'
import { z } from 'zod'

/** One kind of work in each model that can end its worker, and how it is looked at from outside. */

interface Given {
  readonly poison: boolean
}

const given = z.object({ poison: z.boolean() })

const PoisonCommand = defineCommand('apples', 'Eat', { data: given, retry: { maxAttempts: 3 } })
const PoisonProcess = defineProcess('apples', 'Eat', {
  state: given,
  execute: async (ctx, state) => {
    await ctx.step('prepare', () => 'ready')
    await ctx.step('eat', () => eat(state as Given))
  },
})
const PoisonWorkflow = defineWorkflow('test', 'Eat')
  .step('eat', 'eat', { retry: { maxAttempts: 3 } })
  .build()

export const models = ['commands', 'processes', 'workflows'] as const
export type Model = (typeof models)[number]

/** A poisoned one ends its whole Node process; a good one takes a moment, so that many share a worker. */
async function eat({ poison }: Given): Promise<string> {
  if (poison) process.exit(9)
  await new Promise((resolve) => setTimeout(resolve, 20))
  return 'eaten'
}

export function registerAll(hf: Holdfast, run: (input: Given) => Promise<string> = eat): void {
  hf.handle(PoisonCommand, (data) => run(data))
  hf.register(PoisonProcess)
  hf.register(PoisonWorkflow)
  hf.handle('eat', (input) => run(input as Given))
}

export async function begin(hf: Holdfast, model: Model, data: Given): Promise<string> {
  if (model === 'commands') return (await hf.send(PoisonCommand, data)).id
  if (model === 'processes') return (await hf.start(PoisonProcess, data, { immediate: false })).id
  return (await hf.start(PoisonWorkflow, data)).id
}

/** How it stands: ended well, needs a person (with the code), or still on its way. */
export async function standing(hf: Holdfast, model: Model, id: string): Promise<string> {
  if (model === 'commands') {
    const { status, error } = await hf.command(PoisonCommand, id).get()
    return status === 'IN_TROUBLESHOOTING_QUEUE' ? (error?.code ?? '') : status
  }
  if (model === 'processes') {
    const { status, error } = await hf.process(PoisonProcess, id).get()
    return status === 'WAITING_FOR_TSQ' ? (error?.code ?? '') : status
  }
  const { status, error } = await hf.workflow(id).get()
  return status === 'FAILED' ? (error?.code ?? '') : status
}
