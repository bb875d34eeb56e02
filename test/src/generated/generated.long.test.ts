import { faultTest } from '@holdfast/testing'
import { expect, test } from 'vitest'
import { models } from './models.js'

// By hand, many more: `npm run build && npm run generated -- --seeds 10000`.
const SEEDS = Number(process.env.SEEDS ?? 200)

test.each(Object.keys(models) as (keyof typeof models)[])(
  'K-19 K-20 in generated %s every effect is kept or undone exactly once, whatever is killed, cancelled or lost',
  async (model) => {
    const report = await faultTest({ ...models[model](), seeds: SEEDS })
    expect(report).toMatchObject({ executions: SEEDS })
    expect(report.deaths).toBeGreaterThan(0)
  },
  600_000,
)
