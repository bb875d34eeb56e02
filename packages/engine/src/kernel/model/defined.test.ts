import type { CommandDefinition, DispatchDefinition, ManagerDefinition, ProcessDefinition } from 'holdfast'
import { defineCommand, defineDispatch, defineManager, defineProcess, processTarget, stepCommand } from 'holdfast'
import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'

const Pay = defineCommand('defined', 'Pay')
const Payment = defineProcess('defined', 'Payment', { state: z.object({}), version: 3, execute: async () => undefined })
const Order = defineManager('defined', 'Order', {
  state: z.object({}),
  firstStep: () => 'pay',
  command: () => stepCommand(Pay, {}),
  onReply: (state) => state,
  nextStep: () => null,
})
const Window = defineDispatch('defined', 'Window', { target: processTarget(Payment) })

test.each([
  ['command', Pay, 'defined/Pay', 1],
  ['process', Payment, 'defined/Payment', 3],
  ['manager', Order, 'defined/Order', 1],
  ['dispatch', Window, 'defined/Window', 3],
] as const)(
  'U-01 U-12 the definition of a %s has its names and version, and nothing of the engine',
  (kind, made, name, version) => {
    const [domain, type] = name.split('/')
    expect({ ...made }).toEqual({ kind, domain, type, name, version })
    expect(Object.isFrozen(made)).toBe(true)
    expect(Reflect.ownKeys(made)).toHaveLength(5)
  },
)

test('U-09 U-12 the types of definitions have names, a version, and what carries the types of users', () => {
  type Shown = 'kind' | 'domain' | 'type' | 'name' | 'version'
  expectTypeOf<keyof CommandDefinition>().toEqualTypeOf<Shown | 'accepts' | 'handles' | 'returns'>()
  expectTypeOf<keyof ProcessDefinition>().toEqualTypeOf<Shown | 'accepts' | 'hears' | 'returns'>()
  expectTypeOf<keyof ManagerDefinition>().toEqualTypeOf<Shown | 'accepts'>()
  expectTypeOf<keyof DispatchDefinition>().toEqualTypeOf<Shown | 'accepts' | 'returns'>()
  // One kind is not taken for another.
  expectTypeOf(Order).not.toExtend<ProcessDefinition>()
  expectTypeOf(Payment).not.toExtend<CommandDefinition>()
})
