import { strictEqual } from 'node:assert'
import { test } from 'node:test'
import { testKit } from '@holdfast/testing'
import { defineProcess } from 'holdfast'
import { z } from 'zod'

const Sum = defineProcess('sums', 'Sum', {
  state: z.object({ n: z.number() }),
  async execute(ctx, { n }) {
    await ctx.sleep('night', '8h')
    return ctx.step('add', async () => n + 1)
  },
})

void test('a process under node:test, first file', async () => {
  const kit = await testKit({ register: [Sum] })
  try {
    await kit.hf.start(Sum, { n: 1 }, { key: 'one' })
    await kit.drain({ skipTime: true })
    strictEqual(await kit.hf.process(Sum, 'one').result(), 2)
    console.log(`server ${new URL(kit.connectionString).port}`)
  } finally {
    await kit.close()
  }
})
