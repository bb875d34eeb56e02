import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { defineCommand, defineProcess, defineWorkflow, type Holdfast } from 'holdfast'
import { assemble, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'

let connectionString: string
let sql: pg.Pool
beforeAll(async () => {
  ;({ connectionString } = await testDatabase())
  sql = new pg.Pool({ connectionString, max: 1 })
})
afterAll(() => sql.end())

type Call = (signal: AbortSignal) => Promise<string>

/** One item of each model whose call is given from outside, and how it stands. */
const items = {
  commands(name: string) {
    const Do = defineCommand(name, 'Do', { retry: { maxAttempts: 3 } })
    return {
      register: (hf: Holdfast, call: Call) => hf.handle(Do, (_data, ctx) => call(ctx.signal)),
      begin: async (hf: Holdfast) => (await hf.send(Do, null)).id,
      standing: async (hf: Holdfast, id: string) => (await hf.command(Do, id).get()).status as string,
      endLease: `update pgmq.q_${name}__commands set vt = holdfast.now() where message ->> 'command_id' = $1`,
    }
  },
  processes(name: string) {
    let current: Call
    const Do = defineProcess(name, 'Do', {
      state: z.any(),
      execute: (ctx) => ctx.step('call', ({ signal }) => current(signal), { timeout: '1h' }),
    })
    return {
      register(hf: Holdfast, call: Call) {
        current = call
        hf.register(Do)
      },
      begin: async (hf: Holdfast) => (await hf.start(Do, {}, { immediate: false })).id,
      standing: async (hf: Holdfast, id: string) => (await hf.process(Do, id).get()).status as string,
      endLease: 'update holdfast.process set due_at = holdfast.now() where id = $1',
    }
  },
  workflows(name: string) {
    const Do = defineWorkflow('test', name)
      .step('call', name, { retry: { maxAttempts: 3 } })
      .build()
    return {
      register(hf: Holdfast, call: Call) {
        hf.register(Do)
        hf.handle(name, (_input, ctx) => call(ctx.signal))
      },
      begin: async (hf: Holdfast) => (await hf.start(Do, null)).id,
      standing: async (hf: Holdfast, id: string) => (await hf.workflow(id).get()).status as string,
      endLease: 'update holdfast.workflow_step set due_at = holdfast.now() where workflow_id = $1',
    }
  },
} as const

const models = Object.keys(items) as (keyof typeof items)[]

async function openOne(register: (hf: Holdfast) => void): Promise<Holdfast> {
  const hf = assemble(await openDatabase({ connectionString, poolSize: 3 }), { abortGrace: '50ms' })
  register(hf)
  return hf
}

const STOPS = 6
const cases = models.flatMap((model) => [
  { model, call: 'a call that heeds its signal', heeds: true },
  { model, call: 'a call that goes on regardless', heeds: false },
])

test.each(cases)(
  'K-26 $model: stops in order during $call are no crashes and use up no attempt',
  { timeout: 60_000 },
  async ({ model, heeds }) => {
    const it = items[model](`stops_${model}_${heeds ? 'heeds' : 'ignores'}`)
    let begun = 0
    const interrupted: Call = (signal) => {
      begun += 1
      return new Promise((_resolve, reject) => {
        if (heeds) signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      })
    }
    const starter = await openOne((hf) => it.register(hf, interrupted))
    const id = await it.begin(starter)
    for (let stop = 1; stop <= STOPS; stop += 1) {
      const hf = await openOne((one) => it.register(one, interrupted))
      const worker = await hf.run({ lease: '3s', poll: '20ms' })
      await waitFor(`call ${stop} begins`, () => begun === stop)
      expect((await worker.stop('10ms')).abandoned).toBeGreaterThan(0)
      await hf.close()
      // The lease of a call whose code goes on is kept until it ends by itself.
      await sql.query(it.endLease, [id])
    }
    const last = await openOne((hf) => it.register(hf, async () => 'done'))
    await last.run({ lease: '3s', poll: '20ms' })
    await waitFor('it ends', async () => (await it.standing(last, id)) === 'COMPLETED')
    expect(begun).toBe(STOPS)
    await last.close()
    await starter.close()
  },
)

test.each(models)(
  'K-26 %s: work that a stop has interrupted begins again only when its code has ended',
  async (model) => {
    const it = items[model](`beside_${model}`)
    let running = 0
    let most = 0
    let endFirst: (() => void) | undefined
    let calls = 0
    const call: Call = async () => {
      calls += 1
      running += 1
      most = Math.max(most, running)
      if (calls === 1) await new Promise<void>((resolve) => (endFirst = resolve))
      running -= 1
      return 'done'
    }
    const first = await openOne((hf) => it.register(hf, call))
    const second = await openOne((hf) => it.register(hf, call))
    const id = await it.begin(first)
    // A lease that outlasts the test: whoever claims it before it ends must have been let.
    const worker = await first.run({ lease: '1h', poll: '20ms' })
    await waitFor('it runs', () => running === 1)
    await worker.stop('10ms')
    await second.run({ lease: '500ms', poll: '20ms' })
    // Longer than executions take to notice that their lease was taken from them.
    const stopped = performance.now()
    await waitFor('a while has passed', () => performance.now() - stopped > 1_300)
    expect(calls).toBe(1)
    endFirst?.()
    await waitFor('it ends', async () => (await it.standing(second, id)) === 'COMPLETED')
    expect(most).toBe(1)
    await first.close()
    await second.close()
  },
)
