import { waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestPayments, type TestPayments } from './test-payments.js'

let app: TestPayments
beforeAll(async () => {
  app = await openTestPayments()
})
afterAll(() => app.close())

const by = { actor: 'ann', reason: 'a test' }
const order = { debitAccount: 'EUR-ann', creditAccount: 'EUR-bob', debitCurrency: 'EUR', creditCurrency: 'EUR' }
const ready = async () => (await app.hf.dispatch.depth(app.definitions.PaymentWindow)).READY
const rows = async <Row extends object>(text: string, id: string) => (await app.pool.query<Row>(text, [id])).rows

test('A-03 the second phase: at their time payments are executed, their parties told, and settled', async () => {
  // Later than all of them are scheduled, also on a busy machine.
  const executeAt = new Date(Date.now() + 5_000)
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
  const executeAt = new Date(Date.now() + 3 * 86_400_000).toISOString()
  await expect(app.submit({ ...order, amount: '1.00', executeAt })).rejects.toThrow(/lies behind the value date/)
  const wrong = { ...order, amount: '1.00', executeAt, model: 'STEP_BASED', valueDate: executeAt.slice(0, 10) }
  await expect(app.submit(wrong)).rejects.toThrow(/must be PROCESS_STEP/)
  expect((await app.pool.query(`select from payments.payment where debit_amount = 1`)).rowCount).toBe(0)
  expect(await ready()).toBe(0)
})

test('A-03 D-01 the first phase is one transaction: what fails at its very end has scheduled nothing', async () => {
  await app.pool.query(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'not today'; end $$;
    create constraint trigger refuse after insert on payments.payment
    deferrable initially deferred for each row execute function refuse()`)
  const executeAt = new Date(Date.now() + 600_000).toISOString()
  const window = { payments: 20, model: 'PROCESS_STEP', executeAt }
  await expect(app.createBatch(window)).rejects.toThrow('not today')
  await app.pool.query('drop trigger refuse on payments.payment')
  expect((await app.pool.query(`select from payments.payment where status = 'SCHEDULED'`)).rowCount).toBe(0)
  expect(await ready()).toBe(0)
})

test('A-05 a scheduled payment shows its status: before its time, held back, and settled', async () => {
  const { PaymentWindow } = app.definitions
  await app.hf.dispatch.pause(PaymentWindow, by)
  const executeAt = new Date(Date.now() + 3_000).toISOString()
  const { payment } = await app.submit({ ...order, amount: '3.00', executeAt })
  const standing = () => app.standing(payment.id)
  expect(await standing()).toMatchObject({ process: null, waitsFor: 'its time', release: { status: 'READY' } })
  await waitFor('its time has come', async () => (await standing())?.waitsFor === 'its release')
  await app.hf.dispatch.resume(PaymentWindow, by)
  expect(await app.ended(payment.id)).toBe('COMPLETE')
  await waitFor('its item has ended', async () => (await standing())?.release?.status === 'COMPLETED')
  expect(await standing()).toMatchObject({ process: 'COMPLETED', waitsFor: null, payment: { creditAmount: '3.00' } })
})

test('A-03 a payment that is cancelled before its time is released all the same, and touches no money', async () => {
  const executeAt = new Date(Date.now() + 60_000).toISOString()
  const { payment } = await app.submit({ ...order, amount: '4.00', executeAt })
  await app.cancel(payment.id, by)
  expect(await app.standing(payment.id)).toMatchObject({ payment: { status: 'CANCELLED' }, waitsFor: null })
  await app.moveClock(60_000)
  const item = await waitFor('its item has ended', async () => {
    const release = (await app.standing(payment.id))?.release
    return release?.completedAt ? release : undefined
  })
  expect(item).toMatchObject({ status: 'FAILED', lastError: expect.stringContaining('ALREADY_CANCELLED') })
  expect(await rows('select from payments.ledger_entry where payment_id = $1', payment.id)).toEqual([])
})
