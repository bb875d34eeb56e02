import { waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestPayments, type TestPayments } from './test-payments.js'

let app: TestPayments
beforeAll(async () => {
  app = await openTestPayments()
})
afterAll(() => app.close())

const rows = async <Row extends object>(text: string, id: string) => (await app.pool.query<Row>(text, [id])).rows

test('A-03 the second phase: at their time payments are executed, their parties told, and settled', async () => {
  const executeAt = new Date(Date.now() + 1_000)
  const { id } = await app.createBatch({
    payments: 20,
    model: 'PROCESS_STEP',
    behaviour: { bookFx: { businessPct: 50 } },
    executeAt: executeAt.toISOString(),
  })
  const scheduled = await rows<{ id: string; status: string }>(
    'select id, status from payments.payment where batch_id = $1',
    id,
  )
  expect(scheduled.every(({ status }) => status === 'SCHEDULED')).toBe(true)
  await waitFor('all have ended', async () => {
    const [open] = await rows<{ n: number }>(
      'select count(*)::int as n from payments.payment where batch_id = $1 and ended_at is null',
      id,
    )
    return open?.n === 0
  })
  const ways = await rows<{ way: string; early: boolean; n: number }>(
    `select way, bool_or(began < execute_at) as early, count(*)::int as n
     from (
       select string_agg(to_status, ' ' order by change.id) as way, min(change.at) filter (where to_status = 'ACCEPTED') as began, execute_at
       from payments.status_change as change join payments.payment on payment.id = payment_id
       where batch_id = $1 group by payment_id, execute_at
     ) as each
     group by way order by way`,
    id,
  )
  expect(ways).toMatchObject([
    { way: 'SCHEDULED ACCEPTED PROCESSING COMPLETE', early: false },
    { way: 'SCHEDULED ACCEPTED PROCESSING FAILED', early: false },
  ])
  const told = await rows<{ n: number }>(
    'select count(*)::int as n from payments.notification join payments.payment on id = payment_id where batch_id = $1 and sent_at is not null',
    id,
  )
  expect(told).toEqual([{ n: 40 }])
  expect(await app.books()).toMatchObject({ balanced: true })
})

test('A-03 a rule that fails in the first phase schedules nothing', async () => {
  const order = { debitAccount: 'EUR-ann', creditAccount: 'EUR-bob', debitCurrency: 'EUR', creditCurrency: 'EUR' }
  const executeAt = new Date(Date.now() + 3 * 86_400_000).toISOString()
  await expect(app.submit({ ...order, amount: '1.00', executeAt })).rejects.toThrow(/lies behind the value date/)
  const wrong = { ...order, amount: '1.00', executeAt, model: 'STEP_BASED', valueDate: executeAt.slice(0, 10) }
  await expect(app.submit(wrong)).rejects.toThrow(/must be PROCESS_STEP/)
  expect((await app.pool.query(`select from payments.payment where debit_amount = 1`)).rowCount).toBe(0)
  expect(await app.hf.processes.list({ domain: 'payments', status: 'PENDING' })).toEqual([])
})
