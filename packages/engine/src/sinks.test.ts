import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import { defineCommand } from './commands/index.js'
import { holdfast } from './holdfast.js'
import { defineProcess } from './processes/index.js'
import { defineWorkflow } from './workflows/index.js'

let connectionString: string
beforeAll(async () => {
  ;({ connectionString } = await testDatabase())
})

const Any = z.any()
const Charge = defineCommand('sinks', 'Charge', { data: Any, retry: { maxAttempts: 2, delays: [20] } })
const Order = defineProcess('sinks', 'Order', {
  state: Any,
  async execute(ctx) {
    await ctx.step('a', () => 1)
    await ctx.sleep('nap', 20)
    return 'ordered'
  },
})
const Ship = defineWorkflow('test', 'sinks-ship').step('a', 'sinks-a').build()

let calls = 0
const boom = (): never => {
  calls += 1
  throw new Error('the sink is broken')
}
// As an asynchronous function of a user would; what a sink returns is nobody's.
const boomLater = (): unknown => {
  calls += 1
  return Promise.reject(new Error('the sink is broken'))
}

test.each([
  ['throws', boom],
  ['rejects', boomLater],
])(
  'K-16 a metrics sink and a logger of which every call %s fail no call that is committed, stop no worker, and let it close',
  async (_, call) => {
    calls = 0
    const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
    onTestFinished(() => stderr.mockRestore())
    const hf = await holdfast({
      connectionString,
      metrics: { count: call, observe: call, gauge: call },
      logger: { debug: call, info: call, warn: call, error: call },
    })
    hf.handle(Charge, async (data: { fail: boolean }, ctx) => {
      if (data.fail && ctx.attempt === 1) throw new Error('the other side is away')
      return 'charged'
    })
    hf.register(Order)
    hf.register(Ship)
    hf.handle('sinks-a', () => 'shipped')
    await hf.run({ poll: '50ms' })
    for (const fail of [false, true]) {
      const { id: charge } = await hf.send(Charge, { fail })
      const order = await hf.start(Order, {}, { immediate: !fail })
      const ship = await hf.start(Ship, {})
      expect(await hf.command(Charge, charge).result({ timeout: '60s' })).toBe('charged')
      expect(await hf.process(Order, order.id).result({ timeout: '60s' })).toBe('ordered')
      await waitFor('the workflow has ended', async () => (await hf.workflow(ship.id).get()).status === 'COMPLETED')
    }
    await hf.close()
    expect(calls).toBeGreaterThan(20)
    const told = stderr.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('the sink is broken'))
    // One line for each of the two.
    expect(told).toHaveLength(2)
  },
)

test.each([
  ['metrics', {}],
  ['metrics', 5],
  ['metrics', null],
  ['metrics', { count() {}, observe() {} }],
  ['codec', 1],
  ['codec', {}],
  ['codec', null],
  ['codec', { encode() {} }],
  ['codec', { encode() {}, decode() {}, maxBytes: 'much' }],
  ['logger', null],
  ['logger', {}],
])('K-13 holdfast() refuses %s: %j', async (option, value) => {
  await expect(holdfast({ connectionString, [option]: value }).then((hf) => hf.close())).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
    message: expect.stringContaining(`\`${option}`),
  })
})
