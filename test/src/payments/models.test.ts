import type { Behaviour, ExecutionModel } from '@holdfast/example-payments'
import { waitFor } from '@holdfast/testing/internal'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openTestPayments, type TestPayments } from './test-payments.js'

let app: TestPayments
beforeAll(async () => {
  app = await openTestPayments({
    // A service that does not answer is waited for as long as this.
    pace: { serviceTimeout: '2s' },
  })
})
afterEach(async () => {
  expect(await app.books()).toMatchObject({ balanced: true, faults: [] })
})
afterAll(() => app.close())

const LIMIT = 20 * 60_000
const by = { actor: 'ann', reason: 'a test' }
const order = {
  debitAccount: 'EUR-ann',
  creditAccount: 'EUR-bob',
  amount: '10.10',
  debitCurrency: 'EUR',
  creditCurrency: 'EUR',
}
const crossing = { ...order, creditAccount: 'JPY-bob', creditCurrency: 'JPY' }
const large = { ...order, amount: '250000.00' }

/** One payment that the world treats so. */
async function payOne(model: ExecutionModel, behaviour: Behaviour | object): Promise<string> {
  const { id } = await app.createBatch({ payments: 1, model, behaviour })
  const { rows } = await app.pool.query<{ id: string }>('select id from payments.payment where batch_id = $1', [id])
  return rows[0]?.id ?? ''
}
const process = (id: string) => app.standing(id).then((standing) => standing?.process)
const waitsFor = (id: string, what: string | RegExp) =>
  waitFor(`${id} waits for ${what}`, async () => (await app.standing(id))?.waitsFor?.match(what))
const calls = async (id: string, operation: string) => {
  const { rows } = await app.pool.query<{ keys: number; calls: number }>(
    `select count(*)::int as calls, count(distinct idempotency_key)::int as keys
     from payments.service_call where payment_id = $1 and operation = $2`,
    [id, operation],
  )
  return rows[0]
}

describe.each<ExecutionModel>(['PROCESS_STEP', 'STEP_BASED'])('A-02 %s', (model) => {
  const troubleshoots = (id: string) =>
    waitFor(`${id} is in troubleshooting`, async () => (await process(id)) === 'WAITING_FOR_TSQ')

  /** What an operator does in either model: the process, or the command it waits for. */
  async function retry(id: string): Promise<void> {
    if (model === 'PROCESS_STEP') return app.hf.process(app.definitions.Payment, id).retry(by)
    const [troubled] = (await app.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
    if (!troubled) return app.hf.process(app.definitions.StepPayment, id).retry(by)
    await app.hf.command(troubled, troubled.id).retry(by)
  }

  test('a payment within a currency is completed', async () => {
    const { payment } = await app.submit({ ...order, model })
    expect(await app.ended(payment.id)).toBe('COMPLETE')
    const standing = await app.standing(payment.id)
    expect(standing).toMatchObject({ payment: { creditAmount: '10.10' }, error: null, waitsFor: null })
    expect(standing?.confirmations).toMatchObject({ L1: { outcome: 'CONFIRMED' }, L4: { outcome: 'CONFIRMED' } })
  })

  test('a payment across currencies is bought, and credited to the digit', async () => {
    const { payment } = await app.submit({ ...crossing, model })
    expect(await app.ended(payment.id)).toBe('COMPLETE')
    expect((await app.standing(payment.id))?.payment.creditAmount).toBe('1712')
    expect(await calls(payment.id, 'bookFx')).toEqual({ calls: 1, keys: 1 })
  })

  test('transient failures are retried up to the attempts, under one key; then an operator helps', async () => {
    const id = await payOne(model, { bookRisk: { transientPct: 100 } })
    await troubleshoots(id)
    expect(await calls(id, 'bookRisk')).toEqual({ calls: 3, keys: 1 })
    await app.pool.query(`update payments.batch set behaviour = '{}'`)
    await retry(id)
    expect(await app.ended(id)).toBe('COMPLETE')
    expect(await calls(id, 'bookRisk')).toEqual({ calls: 4, keys: 1 })
  })

  test('a refusal of the FX service undoes the risk and gives the money back', async () => {
    const { id: batch } = await app.createBatch({ payments: 8, model, behaviour: { bookFx: { businessPct: 100 } } })
    const { rows } = await app.pool.query<{ id: string; crosses: boolean }>(
      'select id, debit_currency <> credit_currency as crosses from payments.payment where batch_id = $1',
      [batch],
    )
    for (const { id, crosses } of rows) expect(await app.ended(id)).toBe(crosses ? 'FAILED' : 'COMPLETE')
    const { id = '' } = rows.find(({ crosses }) => crosses) ?? {}
    await waitFor('it says why', async () => (await app.standing(id))?.error?.code === 'FX_DECLINED')
    expect((await calls(id, 'unwindRisk'))?.calls).toBeGreaterThan(0)
  })

  test('a large payment waits for a person, who approves it', async () => {
    const { payment } = await app.submit({ ...large, model })
    await waitsFor(payment.id, 'an approval')
    const waiting = (await app.pending.approvals()).find(({ paymentId }) => paymentId === payment.id)
    expect(waiting).toMatchObject({ model, debitAmount: '250000.00', debitCurrency: 'EUR' })
    const approval = waiting?.id ?? ''
    expect(await app.pending.decideApproval(approval, { decision: 'APPROVED', by: 'ann', comment: 'known' })).toBe(
      'done',
    )
    expect(await app.pending.decideApproval(approval, { decision: 'DECLINED', by: 'bob' })).toBe('resolved')
    expect(await app.ended(payment.id)).toBe('COMPLETE')
    expect(await app.standing(payment.id)).toMatchObject({ approval: { decision: 'APPROVED', by: 'ann' } })
  })

  test('a person declines: the payment is undone', async () => {
    const { payment } = await app.submit({ ...large, model })
    await waitsFor(payment.id, 'an approval')
    const waiting = (await app.pending.approvals()).find(({ paymentId }) => paymentId === payment.id)
    await app.pending.decideApproval(waiting?.id ?? '', { decision: 'DECLINED', by: 'bob', comment: 'who is that?' })
    expect(await app.ended(payment.id)).toBe('FAILED')
    await waitFor('it says why', async () => (await app.standing(payment.id))?.error?.code === 'APPROVAL_DECLINED')
  })

  test('not approved in time: an operator retries, which waits again, and cancels', async () => {
    const { payment } = await app.submit({ ...large, model })
    await waitsFor(payment.id, 'an approval')
    await app.moveClock(LIMIT)
    await troubleshoots(payment.id)
    expect(await app.standing(payment.id)).toMatchObject({ error: { code: 'WAIT_TIMEOUT' } })
    await retry(payment.id)
    await waitsFor(payment.id, 'an approval')
    await app.cancel(payment.id, by)
    expect(await app.ended(payment.id)).toBe('CANCELLED')
  })

  test('the gateway does not respond: an inquiry is made, no second call', async () => {
    const silent = { payments: 8, model, behaviour: { submit: { timeoutPct: 100 } } }
    const { id: batch } = await app.createBatch(silent)
    const { rows } = await app.pool.query<{ id: string }>('select id from payments.payment where batch_id = $1', [
      batch,
    ])
    const paid = rows.map(({ id }) => id)
    const called = async (id: string) => (await calls(id, 'submit'))?.calls === 1
    await waitFor('all were submitted once', async () => (await Promise.all(paid.map(called))).every(Boolean))
    await app.pool.query(`update payments.batch set behaviour = '{}'`)
    for (const id of paid) {
      await waitFor('it is settled or needs a person', async () => {
        const standing = await app.standing(id)
        return standing?.payment.endedAt !== null || standing.process === 'WAITING_FOR_TSQ'
      })
      if ((await process(id)) === 'WAITING_FOR_TSQ') await retry(id)
      expect(await app.ended(id)).toBe('COMPLETE')
    }
    const { rows: submitted } = await app.pool.query<{ first: boolean }>(
      `select idempotency_key in (
         select idempotency_key from payments.service_call where operation = 'submit' group by 1 having count(*) = 1
       ) as first
       from payments.gateway_submission where payment_id = any ($1) and recalled_at is null`,
      [paid],
    )
    // Some were carried out although nobody heard of it, some were not: each is there once.
    expect(submitted).toHaveLength(paid.length)
    expect(new Set(submitted.map(({ first }) => first))).toEqual(new Set([true, false]))
  })

  test.each([
    ['permanentPct', 'PERM_ERROR'],
    ['transientPct', 'TRANS_ERROR'],
    ['businessPct', 'BIZ_ERROR'],
  ])('A-04 the network refuses (%s): undone with %s, and the submission is recalled', async (chance, code) => {
    const id = await payOne(model, { awaitL2: { [chance]: 100 } })
    expect(await app.ended(id)).toBe('FAILED')
    await waitFor('it says why', async () => (await app.standing(id))?.error?.code === code)
    const { confirmations } = (await app.standing(id)) ?? {}
    expect(confirmations).toMatchObject({ L1: { outcome: 'CONFIRMED' }, L2: { outcome: 'REJECTED', code }, L3: null })
    expect((await calls(id, 'recall'))?.calls).toBeGreaterThan(0)
  })

  test('A-07 the network leaves a level to people, who respond to it; the others follow', async () => {
    const id = await payOne(model, { awaitL3: { pendingPct: 100 } })
    const waiting = await waitFor('a person is asked', async () =>
      (await app.pending.networkResponses()).find(({ paymentId }) => paymentId === id),
    )
    expect(waiting).toMatchObject({ level: 'L3', model })
    const answer = { outcome: 'CONFIRMED', reference: 'by phone', by: 'ann' } as const
    expect(await app.pending.answerNetwork(waiting.id, answer)).toBe('done')
    expect(await app.ended(id)).toBe('COMPLETE')
    expect((await app.standing(id))?.confirmations).toMatchObject({ L3: { reference: 'by phone' } })
  })

  test('the network is silent: troubleshooting, and cancelling recalls what was submitted', async () => {
    const id = await payOne(model, { awaitL1: { timeoutPct: 100 } })
    await waitsFor(id, 'confirmation L1')
    await app.moveClock(LIMIT)
    await troubleshoots(id)
    await app.cancel(id, by)
    expect(await app.ended(id)).toBe('CANCELLED')
  })

  test('a payment that is cancelled before it begins has never touched any money', async () => {
    await app.hf.pause({ domain: 'payments' }, by)
    const { payment } = await app.submit({ ...order, model })
    await app.cancel(payment.id, by)
    expect((await app.standing(payment.id))?.payment.status).toBe('CANCELLED')
    await app.hf.resume({ domain: 'payments' }, by)
    await waitFor('its process ends', async () =>
      ['CANCELLED', 'COMPENSATED'].includes((await process(payment.id)) ?? ''),
    )
    const { rows } = await app.pool.query('select from payments.ledger_entry where payment_id = $1', [payment.id])
    expect(rows).toEqual([])
  })
})

test.each<ExecutionModel>(['PROCESS_STEP', 'STEP_BASED'])(
  'A-01 %s: the cut-off undoes a payment that waits',
  async (model) => {
    const late = await openTestPayments({ pace: { approvalTimeout: '10h' } })
    const { payment } = await late.submit({ ...large, model })
    await waitFor('it waits', async () => (await late.standing(payment.id))?.waitsFor?.includes('approval'))
    await late.moveClock(4 * 3_600_000)
    expect(await late.ended(payment.id)).toBe('FAILED')
    await waitFor('it says why', async () => (await late.standing(payment.id))?.error?.code === 'DEADLINE_EXCEEDED')
    expect(await late.books()).toMatchObject({ balanced: true, payments: { FAILED: 1 } })
    await late.close()
  },
)
