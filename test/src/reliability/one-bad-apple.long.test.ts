import { startWorkerProcess, testDatabase, waitFor } from '@holdfast/testing/internal'
import { assemble, type Database, openDatabase } from 'holdfast/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { begin, models, registerAll, standing } from './definitions.js'

const script = new URL('../../dist/reliability/worker-process.js', import.meta.url)

let connectionString: string
let db: Database
let hf: ReturnType<typeof assemble>
beforeAll(async () => {
  ;({ connectionString } = await testDatabase())
  db = await openDatabase({ connectionString })
  hf = assemble(db, {})
  registerAll(hf)
})
afterAll(() => hf.close())

/** Workers that are started again as often as they die, until something holds; answers how many died. */
async function untilWorkersManage(done: () => Promise<boolean>): Promise<number> {
  let deaths = 0
  for (;;) {
    const worker = startWorkerProcess(script, { connectionString })
    const died = worker.ended.then(() => 'died' as const)
    const managed = waitFor('the workers manage', done, { timeout: 90_000 }).then(() => 'managed' as const)
    managed.catch(() => undefined)
    if ((await Promise.race([died, managed])) === 'managed') {
      await worker.kill()
      return deaths
    }
    deaths += 1
    if (deaths > 15) throw new Error('the workers die on and on')
  }
}

const CODES = {
  commands: 'ATTEMPTS_EXHAUSTED_BY_CRASH',
  processes: 'CRASH_LOOP',
  workflows: 'ATTEMPTS_EXHAUSTED_BY_CRASH',
}

test.each(models)(
  'K-26 one of %s that ends its workers goes to troubleshooting, and the twenty that shared a worker with it do not',
  { timeout: 180_000 },
  async (model) => {
    const good = await Promise.all(Array.from({ length: 10 }, () => begin(hf, model, { poison: false })))
    const bad = await begin(hf, model, { poison: true })
    good.push(...(await Promise.all(Array.from({ length: 10 }, () => begin(hf, model, { poison: false })))))
    const deaths = await untilWorkersManage(async () => {
      const all = await Promise.all([...good, bad].map((id) => standing(hf, model, id)))
      return all.every((one) => one === 'COMPLETED' || one === CODES[model])
    })
    expect(await standing(hf, model, bad)).toBe(CODES[model])
    for (const id of good) expect(await standing(hf, model, id)).toBe('COMPLETED')
    // Twice beside the others, then alone until its crashes are used up.
    expect(deaths).toBeLessThanOrEqual(model === 'processes' ? 8 : 6)
  },
)
