import { type RestServer, serveRest } from '@holdfast/example-payments'
import { waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestPayments, type TestPayments } from './test-payments.js'

let app: TestPayments
let server: RestServer
beforeAll(async () => {
  app = await openTestPayments()
  server = await serveRest(app)
})
afterAll(async () => {
  await server.close()
  await app.close()
})

interface Reply {
  readonly status: number
  readonly type: string | null
  readonly body: Record<string, unknown> & { id: string }
}

async function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Reply> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { status: response.status, type: response.headers.get('content-type'), body: (await response.json()) as never }
}
const post = (path: string, body: unknown, headers?: Record<string, string>) => call('POST', path, body, headers)
const get = (path: string) => call('GET', path)

const order = {
  debitAccount: 'EUR-ann',
  creditAccount: 'USD-bob',
  amount: '100.00',
  debitCurrency: 'EUR',
  creditCurrency: 'USD',
}

describe('A-05 submitting', () => {
  test.each(['PROCESS_STEP', 'STEP_BASED'])(
    '%s: 200 with the whole payment where the caller waits for its end',
    async (model) => {
      const { status, body } = await post('/payments', { ...order, model }, { prefer: 'wait=20' })
      expect(status).toBe(200)
      expect(body).toMatchObject({
        model,
        status: 'COMPLETE',
        waitsFor: null,
        debit: { account: 'EUR-ann', amount: '100.00', currency: 'EUR' },
        credit: { account: 'USD-bob', amount: '108.50', currency: 'USD' },
        confirmations: { L1: { outcome: 'CONFIRMED' }, L4: { outcome: 'CONFIRMED' } },
        error: null,
      })
    },
  )

  test('202 with what it waits for, and its status from then on', async () => {
    const large = { ...order, amount: '300000.00' }
    const { status, body } = await post('/payments', large)
    expect(status).toBe(202)
    expect(body.waitsFor).toEqual(expect.any(String))
    await waitFor('it waits for a person', async () =>
      String((await get(`/payments/${body.id}`)).body.waitsFor).includes('approval'),
    )
    expect((await get(`/payments/${body.id}`)).body).toMatchObject({ status: 'PROCESSING', approval: null })
  })

  test('the same idempotency key answers with the first payment; another payment under it is refused', async () => {
    const headers = { 'idempotency-key': 'order-4711' }
    const [first, second] = await Promise.all([post('/payments', order, headers), post('/payments', order, headers)])
    const third = await post('/payments', order, headers)
    expect([second.body.id, third.body.id]).toEqual([first.body.id, first.body.id])
    const other = await post('/payments', { ...order, amount: '100.01' }, headers)
    expect(other).toMatchObject({ status: 422, body: { errors: [{ field: 'Idempotency-Key' }] } })
  })

  test('A-03 a scheduled payment is there, waits for its time, and can be cancelled', async () => {
    const executeAt = new Date(Date.now() + 3_600_000).toISOString()
    const valueDate = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10)
    const { status, body } = await post('/payments', { ...order, executeAt, valueDate })
    expect(status).toBe(202)
    expect(body).toMatchObject({
      status: 'SCHEDULED',
      executeAt,
      waitsFor: 'its time',
      process: null,
      release: { status: 'READY', dispatchedAt: null },
    })
    const cancelled = await post(`/payments/${body.id}/cancel`, { by: 'ann', reason: 'a mistake' })
    expect(cancelled).toMatchObject({ status: 200, body: { status: 'CANCELLED' } })
  })
})

describe('bad input', () => {
  test.each<[string, object, string]>([
    ['an unknown currency', { debitCurrency: 'XXX' }, 'debitCurrency'],
    ['a negative amount', { amount: '-1.00' }, 'amount'],
    ['an over-precise amount', { amount: '1.001' }, 'amount'],
    ['an amount that is a float', { amount: 1.5 }, 'amount'],
    ['the same account on both sides', { creditAccount: 'EUR-ann', creditCurrency: 'EUR' }, 'creditAccount'],
    ['an unknown account', { creditAccount: 'USD-nobody' }, 'creditAccount'],
    ['a value date in the past', { valueDate: '2020-01-01' }, 'valueDate'],
    ['an unknown execution model', { model: 'BY_HAND' }, 'model'],
    ['a scheduled payment behind its value date', { executeAt: '2999-01-01T00:00:00Z' }, 'executeAt'],
    ['a field that we do not know', { colour: 'red' }, 'colour'],
  ])('A-05 refuses %s and names the field', async (_, change, field) => {
    const { status, type, body } = await post('/payments', { ...order, ...change })
    expect({ status, type }).toEqual({ status: 422, type: 'application/problem+json' })
    expect(body).toMatchObject({ status: 422, title: 'Unprocessable Content', detail: expect.any(String) })
    expect(body.errors).toContainEqual({ field, detail: expect.any(String) })
  })

  test.each<[string, object, string]>([
    ['chances over 100 %', { behaviour: { bookRisk: { transientPct: 60, permanentPct: 41 } } }, 'behaviour.bookRisk'],
    ['a chance below 0', { behaviour: { submit: { timeoutPct: -1 } } }, 'behaviour.submit.timeoutPct'],
    ['an unknown step', { behaviour: { bookLuck: {} } }, 'behaviour.bookLuck'],
    ['an unknown execution model', { model: 'BY_HAND' }, 'model'],
    ['no payments at all', { payments: 0 }, 'payments'],
  ])('A-05 refuses a batch with %s', async (_, change, field) => {
    const { status, body } = await post('/batches', { payments: 1, model: 'STEP_BASED', ...change })
    expect(status).toBe(422)
    expect(body.errors).toContainEqual({ field, detail: expect.any(String) })
  })

  test('what is refused leaves nothing behind', async () => {
    const count = async () => (await app.pool.query('select from payments.payment')).rowCount
    const before = await count()
    await post('/payments', { ...order, amount: '-1' })
    await post('/payments', { ...order, executeAt: '2999-01-01T00:00:00Z' })
    expect(await count()).toBe(before)
  })

  test.each([
    ['GET', '/payments/00000000-0000-4000-8000-000000000000', 404],
    ['GET', '/payments/nonsense', 404],
    ['GET', '/batches/00000000-0000-4000-8000-000000000000', 404],
    ['POST', '/approvals/00000000-0000-4000-8000-000000000000/approve', 404],
    ['POST', '/network-responses/nonsense/answer', 404],
    ['GET', '/nowhere', 404],
    ['DELETE', '/payments', 405],
  ])('A-05 %s %s is %i', async (method, path, expected) => {
    const said = { by: 'ann', outcome: 'CONFIRMED', reference: 'r' }
    const body = method === 'POST' ? (path.includes('answer') ? said : { by: 'ann' }) : undefined
    const { status, type, body: problem } = await call(method, path, body)
    expect({ status, type }).toEqual({ status: expected, type: 'application/problem+json' })
    expect(problem).toMatchObject({ status: expected, title: expect.any(String) })
  })

  test('a body that is not JSON', async () => {
    expect(await post('/payments', '{')).toMatchObject({ status: 400, body: { errors: [{ field: 'body' }] } })
  })
})

test('A-05 a batch shows how far it has come', async () => {
  const { status, body } = await post('/batches', {
    name: 'salaries',
    payments: 5,
    model: 'PROCESS_STEP',
    seed: 7,
    behaviour: { bookRisk: { businessPct: 100 } },
  })
  expect({ status, body }).toMatchObject({ status: 201, body: { name: 'salaries', size: 5 } })
  await waitFor('all have ended', async () => (await get(`/batches/${body.id}`)).body.ended === 5)
  expect((await get(`/batches/${body.id}`)).body).toMatchObject({ payments: { FAILED: 5 }, model: 'PROCESS_STEP' })
})

test('A-07 people approve, decline and answer through the endpoints', async () => {
  const approvals = async () => (await get('/approvals')).body as unknown as { id: string; paymentId: string }[]
  const large = { ...order, amount: '999999.99' }
  const ids = await Promise.all(
    ['PROCESS_STEP', 'STEP_BASED'].map(async (model) => (await post('/payments', { ...large, model })).body.id),
  )
  for (const [n, id] of ids.entries()) {
    const waiting = await waitFor('it waits for a person', async () =>
      (await approvals()).find(({ paymentId }) => paymentId === id),
    )
    const how = n === 0 ? 'approve' : 'decline'
    expect(await post(`/approvals/${waiting.id}/${how}`, {})).toMatchObject({
      status: 422,
      body: { errors: [{ field: 'by' }] },
    })
    expect(await post(`/approvals/${waiting.id}/${how}`, { by: 'ann', comment: 'looked at it' })).toMatchObject({
      status: 200,
    })
    expect(await post(`/approvals/${waiting.id}/${how}`, { by: 'bob' })).toMatchObject({ status: 409 })
    const { rows } = await app.pool.query('select * from payments.pending_approval where id = $1', [waiting.id])
    expect(rows).toMatchObject([{ resolved_by: 'ann', comment: 'looked at it', resolved_at: expect.any(Date) }])
  }
  expect(await Promise.all(ids.map((id) => app.ended(id)))).toEqual(['COMPLETE', 'FAILED'])

  const { body } = await post('/batches', {
    payments: 1,
    model: 'STEP_BASED',
    behaviour: { awaitL4: { pendingPct: 100 } },
  })
  const responses = async () => (await get('/network-responses')).body as unknown as { id: string; level: string }[]
  const [asked] = await waitFor('a person is asked', async () => {
    const found = await responses()
    return found.length > 0 ? found : undefined
  })
  expect(asked?.level).toBe('L4')
  const refusal = { outcome: 'REJECTED', code: 'AC04', message: 'the account is closed', by: 'ann' }
  expect(await post(`/network-responses/${asked?.id}/answer`, refusal)).toMatchObject({ status: 200 })
  await waitFor('it is undone', async () => (await get(`/batches/${body.id}`)).body.ended === 1)
  expect((await get(`/batches/${body.id}`)).body).toMatchObject({ payments: { FAILED: 1 } })
})

test('A-06 the books are open to everybody', async () => {
  expect(await get('/books')).toMatchObject({ status: 200, body: { balanced: true, faults: [] } })
})
