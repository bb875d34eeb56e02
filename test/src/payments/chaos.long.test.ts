import { setTimeout as sleep } from 'node:timers/promises'
import { type Books, startOperator } from '@holdfast/example-payments'
import { startWorkerProcess, waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { openTestPayments, type TestPayments } from './test-payments.js'

const script = new URL('../../../examples/payments/dist/worker-process.js', import.meta.url)
/** `PAYMENTS=5000` is the full acceptance. */
const PAYMENTS = Number(process.env.PAYMENTS ?? 1_000)
const WORKERS = 2
const KILL_EVERY = 4_000
/** The killing ends after that at the latest. */
const LONGEST = 60_000

const service = { transientPct: 10, permanentPct: 3, businessPct: 5, timeoutPct: 2 }
const level = { businessPct: 0.5, timeoutPct: 0.3, pendingPct: 0.3, minMs: 0, maxMs: 200 }
const behaviour = {
  bookRisk: { ...service, pendingPct: 5 },
  awaitApproval: { businessPct: 10, minMs: 0, maxMs: 500 },
  bookFx: service,
  submit: service,
  unwindRisk: { transientPct: 10 },
  unwindFx: { transientPct: 10 },
  recall: { transientPct: 10 },
  awaitL1: level,
  awaitL2: level,
  awaitL3: level,
  awaitL4: level,
}

/** Worker processes, of which the oldest is killed every few seconds and replaced. */
function startCrew(options: object) {
  const crew = new Set(Array.from({ length: WORKERS }, () => startWorkerProcess(script, options)))
  const ending = new AbortController()
  let killed = 0
  async function kill(): Promise<void> {
    const until = performance.now() + LONGEST
    while (performance.now() < until) {
      await sleep(KILL_EVERY, undefined, { signal: ending.signal }).catch(() => undefined)
      if (ending.signal.aborted) return
      const [victim] = [...crew].filter(({ messages }) => messages.length > 0)
      if (!victim) continue
      crew.delete(victim)
      await victim.kill()
      killed += 1
      crew.add(startWorkerProcess(script, options))
    }
  }
  const killing = kill()
  return {
    get killed() {
      return killed
    },
    async end() {
      ending.abort()
      await killing
      await Promise.all([...crew].map((worker) => worker.kill()))
    },
  }
}

/** Looks into the books all the time; they must balance at every moment. */
function watchBooks(app: TestPayments) {
  const seen: Books[] = []
  const ending = new AbortController()
  async function watch(): Promise<void> {
    while (!ending.signal.aborted) {
      seen.push(await app.books())
      await sleep(3_000, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }
  const watching = watch()
  return {
    async end(): Promise<readonly Books[]> {
      ending.abort()
      await watching
      return seen
    },
  }
}

/** People who answer what the network leaves to them. */
async function answerPeople(app: TestPayments): Promise<void> {
  for (const { id, level } of await app.pending.networkResponses()) {
    await app.pending.answerNetwork(id, { outcome: 'CONFIRMED', reference: `${level} by phone`, by: 'ann' })
  }
}

test(`A-06 ${PAYMENTS} payments in both models, workers killed every few seconds: all are settled or undone, and the books balance at every moment`, async () => {
  const app = await openTestPayments({ works: false, simulateEvery: 100 })
  for (const model of ['PROCESS_STEP', 'STEP_BASED'] as const) {
    await app.createBatch({ name: model, payments: PAYMENTS / 2, model, seed: 42, behaviour })
  }
  const crew = startCrew({ connectionString: app.connectionString, pace: 'hurried', concurrency: 100, lease: '3s' })
  const books = watchBooks(app)
  const operator = startOperator(app)
  const open = `select count(*)::int as n from payments.payment where ended_at is null`
  await waitFor(
    'every payment has ended',
    async () => {
      await answerPeople(app)
      return (await app.pool.query<{ n: number }>(open)).rows[0]?.n === 0
    },
    { timeout: 400_000, every: 1_000 },
  )
  await crew.end()
  await operator.stop()

  const seen = await books.end()
  expect(seen.filter(({ balanced }) => !balanced).map(({ faults, money }) => ({ faults, money }))).toEqual([])
  const end = await app.books()
  expect(end).toMatchObject({ balanced: true, faults: [] })
  const { COMPLETE = 0, FAILED = 0, CANCELLED = 0 } = end.payments
  expect(COMPLETE + FAILED + CANCELLED).toBe(PAYMENTS)
  for (const count of [COMPLETE, FAILED, CANCELLED]) expect(count).toBeGreaterThan(0)
  expect(end.money.every(({ inFlight, missing }) => Number(inFlight) === 0 && Number(missing) === 0)).toBe(true)
  expect(crew.killed).toBeGreaterThan(0)
  expect(operator.done.retried).toBeGreaterThan(0)
  await app.close()
}, 500_000)
