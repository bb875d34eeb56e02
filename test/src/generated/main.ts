/**
 * Generated programs by hand: `node test/dist/generated/main.js --model processes --seeds 10000 --from 1`. Prints the first
 * batch in which the law does not hold, with what reruns it, or goes through all of them with `--keep-going`.
 */
import { parseArgs } from 'node:util'
import { faultTest } from '@holdfast/testing'
import { models } from './models.js'

const { values } = parseArgs({
  options: {
    model: { type: 'string', multiple: true, default: Object.keys(models) },
    seeds: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    together: { type: 'string', default: '50' },
    concurrency: { type: 'string', default: '16' },
    'keep-going': { type: 'boolean', default: false },
  },
})

const seeds = Number(values.seeds)
const together = Number(values.together)
let failed = 0
for (const name of values.model) {
  const model = models[name as keyof typeof models]
  if (!model) throw new Error(`there is no model ${name}; there are ${Object.keys(models).join(', ')}`)
  failed += await runModel(name, model())
}
process.exit(failed > 0 ? 1 : 0)

async function runModel(name: string, options: ReturnType<(typeof models)[keyof typeof models]>): Promise<number> {
  const began = performance.now()
  let bad = 0
  let deaths = 0
  let done = 0
  for (let from = Number(values.from); from < Number(values.from) + seeds; from += together) {
    const count = Math.min(together, Number(values.from) + seeds - from)
    try {
      const report = await faultTest({
        ...options,
        from,
        seeds: count,
        together,
        concurrency: Number(values.concurrency),
      })
      deaths += report.deaths
    } catch (error) {
      bad += 1
      console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`)
      if (!values['keep-going']) break
    }
    done += count
    const rate = (done * 1_000) / (performance.now() - began)
    console.log(
      `${name}: ${done} of ${seeds} programs, ${deaths} workers ended, ${bad} bad batches, ${rate.toFixed(1)}/s`,
    )
  }
  return bad
}
