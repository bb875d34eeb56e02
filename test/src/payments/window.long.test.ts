import { startWorkerProcess, waitFor } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import { openTestPayments } from './test-payments.js'

/** Whole payments, each with risk, currency, gateway and network; `WINDOW=20000` is the full acceptance. */
const WINDOW = Number(process.env.WINDOW ?? 2_000)
const WORKERS = 2
const CONCURRENCY = 50
const BATCH = 50
const INTERVAL = 0.25

const script = new URL('../../../examples/payments/dist/worker-process.js', import.meta.url)
const by = { actor: 'ann', reason: 'a test' }

test(`A-03 D-02 D-04 ${WINDOW} payments due at one instant are released at a rate, the kill switch holds in the middle of it, and each is executed once`, async () => {
  const app = await openTestPayments({ works: false, simulateEvery: 100 })
  const { PaymentWindow } = app.definitions
  const one = async <Row extends object>(text: string, values: unknown[] = []): Promise<Row> => {
    const [row] = (await app.pool.query<Row>(text, values)).rows
    if (!row) throw new Error(`nothing found: ${text}`)
    return row
  }
  const now = async () => (await one<{ now: Date }>('select now()')).now
  /** Executions that began in a stretch of time. */
  const begun = async (from: Date, until: Date) => (await one<{ n: number }>(begunText, [scheduled.id, from, until])).n
  const depth = () => app.hf.dispatch.depth(PaymentWindow)

  const due = new Date(Date.now() + 3_000 + WINDOW)
  const scheduled = await app.createBatch({ payments: WINDOW, model: 'PROCESS_STEP', executeAt: due.toISOString() })
  expect(await depth()).toMatchObject({ READY: WINDOW })
  const rate = { batchSize: BATCH, dispatchInterval: INTERVAL * 1_000, jitterWindow: 0 }
  await app.hf.dispatch.configure(PaymentWindow, rate, by)
  const options = { connectionString: app.connectionString, pace: 'patient', concurrency: CONCURRENCY }
  const workers = Array.from({ length: WORKERS }, () => startWorkerProcess(script, options))
  onTestFinished(async () => {
    await Promise.all(workers.map((worker) => worker.kill()))
  })

  await waitFor('a part of the window is released', async () => (await depth()).READY <= WINDOW * 0.8, {
    timeout: 300_000,
  })
  await app.hf.dispatch.pause(PaymentWindow, by)
  const pulled = await now()
  const released = WINDOW - (await depth()).READY
  expect(released).toBeLessThan(WINDOW)
  expect(released).toBeLessThanOrEqual(mostIn(due, pulled))
  await waitFor(
    'what had begun has ended',
    async () => (await one<{ n: number }>(underWayText, [scheduled.id])).n === 0,
    {
      timeout: 120_000,
    },
  )
  const quiet = await now()
  // The workers are there and work on other things; of the window nothing moves.
  await app.createBatch({ payments: 2 * CONCURRENCY, model: 'PROCESS_STEP', name: 'others' })
  await waitFor('others are paid meanwhile', async () => (await one<{ n: number }>(othersText)).n === 2 * CONCURRENCY, {
    timeout: 120_000,
  })
  const held = await depth()
  expect(WINDOW - held.READY).toBe(released)
  const resumed = await now()
  expect(await begun(quiet, resumed)).toBe(0)
  expect(await begun(pulled, quiet)).toBeLessThanOrEqual(WORKERS * CONCURRENCY)

  await app.hf.dispatch.resume(PaymentWindow, by)
  await waitFor('the window is through', async () => (await depth()).COMPLETED === WINDOW, {
    timeout: 900_000,
    every: 500,
  })
  expect(await depth()).toEqual({ READY: 0, CLAIMED: 0, DISPATCHED: 0, COMPLETED: WINDOW, FAILED: 0, DEAD_LETTER: 0 })
  const { last } = await one<{ last: Date }>('select max(dispatched_at) as last from holdfast.dispatch_item')
  expect(held.READY).toBeLessThanOrEqual(mostIn(resumed, last))
  expect(await one(endText, [scheduled.id])).toEqual({
    complete: WINDOW,
    early: 0,
    executed: WINDOW,
    twice: 0,
    submitted: WINDOW,
  })
  expect(await app.books()).toMatchObject({
    balanced: true,
    faults: [],
    payments: { COMPLETE: WINDOW + 2 * CONCURRENCY },
  })
  await app.close()
}, 1_500_000)

/** What the rate lets through in a stretch of time; one batch more where a cycle came late, one where it began at once. */
function mostIn(from: Date, until: Date): number {
  return BATCH * (Math.ceil((until.getTime() - from.getTime()) / (INTERVAL * 1_000)) + 2)
}

const begunText = `
  select count(*)::int as n
  from payments.status_change as change
  join payments.payment on payment.id = change.payment_id
  where payment.batch_id = $1 and change.to_status = 'ACCEPTED' and change.at > $2 and change.at <= $3`

const underWayText = `
  select count(*)::int as n from payments.payment where batch_id = $1 and status in ('ACCEPTED', 'PROCESSING')`

const othersText = `select count(*)::int as n from payments.payment where execute_at is null and status = 'COMPLETE'`

const endText = `
  with each as (
    select
      payment.id, payment.status,
      count(*) filter (where to_status = 'ACCEPTED') as executed,
      bool_or(to_status = 'ACCEPTED' and change.at < payment.execute_at) as early
    from payments.payment
    join payments.status_change as change on change.payment_id = payment.id
    where payment.batch_id = $1
    group by payment.id, payment.status
  )
  select
    count(*) filter (where status = 'COMPLETE')::int as complete,
    count(*) filter (where early)::int as early,
    sum(executed)::int as executed,
    count(*) filter (where executed > 1)::int as twice,
    (select count(*)::int from payments.gateway_submission where payment_id in (select id from each)) as submitted
  from each`
