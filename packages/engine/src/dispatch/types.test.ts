import type { Holdfast } from 'holdfast'
import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow, ofType } from '../workflows/index.js'
import { type DispatchDefinition, defineDispatch } from './define.js'
import type { Scheduled } from './schedule.js'
import { processTarget } from './targets/process.js'
import { workflowTarget } from './targets/workflow.js'
import type { ExecutionTarget } from './targets.js'

const Pay = defineProcess('types', 'Pay', {
  state: z.object({ cents: z.number(), note: z.string().default('') }),
  execute: async () => ({ reference: 'r' }),
})
const Own = defineDispatch('types', 'Own', { target: processTarget(Pay) })
const target: ExecutionTarget<{ cents: bigint }> = {
  name: 'elsewhere',
  start: async (items) => items.map(() => 'started'),
  describe: async (ids) => ids.map(() => ({ status: 'UNKNOWN' })),
}
const Remote = defineDispatch('types', 'Remote', { context: z.object({ cents: z.string().transform(BigInt) }), target })

test('D-01 the context of an item has the type of the process’s initial state', () => {
  expectTypeOf(Own).toEqualTypeOf<
    DispatchDefinition<{ cents: number; note?: string | undefined }, { reference: string }>
  >()
})

test('U-09 D-01 the context and the result of a workflow target are those of the workflow', () => {
  const Input = z.object({ cents: z.number(), note: z.string().default('') })
  const Typed = defineWorkflow('types', 'typed', { input: Input })
    .step('pay', 'Pay', { output: ofType<{ reference: string }>() })
    .build()
  expectTypeOf(defineDispatch('types', 'Typed', { target: workflowTarget(Typed) })).toEqualTypeOf<
    DispatchDefinition<{ cents: number; note?: string | undefined }, { reference: string }>
  >()
  const Untyped = defineWorkflow('types', 'untyped').step('pay', 'Pay').build()
  expectTypeOf(defineDispatch('types', 'Untyped', { target: workflowTarget(Untyped) })).toEqualTypeOf<
    DispatchDefinition<unknown>
  >()
  const Parsed = defineDispatch('types', 'Parsed', { target: workflowTarget(Untyped), context: Input })
  expectTypeOf(Parsed).toEqualTypeOf<DispatchDefinition<{ cents: number; note?: string | undefined }>>()
})

test('D-05 a remote target gets the context as the schema parsed it', () => {
  expectTypeOf(Remote).toEqualTypeOf<DispatchDefinition<{ cents: string }, null>>()
})

test('D-01 a context of another type does not compile', () => {
  const schedule = (hf: Holdfast) => {
    const startAt = new Date(0)
    // @ts-expect-error cents are a number
    void hf.schedule(Own, { key: 'x', context: { cents: '5' }, startAt })
    // @ts-expect-error the context is missing
    void hf.schedule(Own, [{ key: 'x', startAt }])
    void hf.schedule(Remote, [{ key: 'x', context: { cents: '5' }, startAt }])
  }
  expectTypeOf(schedule).toBeFunction()
})

test('U-02 U-09 a single item gives a handle whose result is that of the process, a list gives counts', () => {
  const startAt = new Date(0)
  const single = (hf: Holdfast) => hf.schedule(Own, { key: 'x', context: { cents: 5 }, startAt })
  expectTypeOf<Awaited<ReturnType<typeof single>>['created']>().toEqualTypeOf<boolean>()
  expectTypeOf<Awaited<ReturnType<Awaited<ReturnType<typeof single>>['result']>>>().toEqualTypeOf<{
    reference: string
  } | null>()
  const list = (hf: Holdfast) => hf.schedule(Own, [{ key: 'x', context: { cents: 5 }, startAt }])
  expectTypeOf<Awaited<ReturnType<typeof list>>>().toEqualTypeOf<Scheduled>()
})

test('U-04 U-09 a handle takes another context as its definition has it', () => {
  const use = (hf: Holdfast) => {
    const by = { actor: 'ann', reason: 'x' }
    expectTypeOf(hf.item(Own, 'x').result).returns.resolves.toEqualTypeOf<{ reference: string } | null>()
    expectTypeOf(hf.item('types/Own', 'x').result).returns.resolves.toBeUnknown()
    void hf.item(Own, 'x').reschedule(by, { context: { cents: 5 } })
    // @ts-expect-error cents are a number
    void hf.item(Own, 'x').reschedule(by, { context: { cents: '5' } })
  }
  expectTypeOf(use).toBeFunction()
})

test('U-12 a definition shows its names and version, and nothing of the engine', () => {
  expectTypeOf<keyof typeof Own>().toEqualTypeOf<
    'kind' | 'domain' | 'type' | 'name' | 'version' | 'accepts' | 'returns'
  >()
})
