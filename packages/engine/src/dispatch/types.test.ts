import type { Holdfast } from 'holdfast'
import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from '../processes/index.js'
import { type DispatchDefinition, defineDispatch } from './define.js'
import { processTarget } from './targets/process.js'
import type { ExecutionTarget } from './targets.js'

const Pay = defineProcess('types', 'Pay', {
  state: z.object({ cents: z.number(), note: z.string().default('') }),
  execute: async () => undefined,
})
const Own = defineDispatch('own', { target: processTarget(Pay) })
const target: ExecutionTarget<{ cents: bigint }> = {
  name: 'elsewhere',
  start: async (items) => items.map(() => 'started'),
  describe: async (ids) => ids.map(() => ({ status: 'UNKNOWN' })),
}
const Remote = defineDispatch('remote', { context: z.object({ cents: z.string().transform(BigInt) }), target })

test('D-01 the context that schedulers give is what the process’s state takes', () => {
  expectTypeOf(Own).toEqualTypeOf<DispatchDefinition<{ cents: number; note?: string | undefined }>>()
})

test('D-05 a target elsewhere gets what the schema makes of it', () => {
  expectTypeOf(Remote).toEqualTypeOf<DispatchDefinition<{ cents: string }>>()
})

test('D-01 another context does not compile', () => {
  const schedule = (hf: Holdfast) => {
    const execTime = new Date(0)
    // @ts-expect-error cents are a number
    void hf.schedule(Own, { itemId: 'x', context: { cents: '5' }, execTime })
    // @ts-expect-error the context is missing
    void hf.schedule(Own, [{ itemId: 'x', execTime }])
    void hf.schedule(Remote, [{ itemId: 'x', context: { cents: '5' }, execTime }])
  }
  expectTypeOf(schedule).toBeFunction()
})
