import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
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
    headers: { ...(method === 'POST' ? { 'content-type': 'application/json' } : {}), ...headers },
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

  test('the same idempotency key returns the first payment; another payment under it is refused', async () => {
    const headers = { 'idempotency-key': 'order-4711' }
    const [first, second] = await Promise.all([post('/payments', order, headers), post('/payments', order, headers)])
    const third = await post('/payments', order, headers)
    expect([second.body.id, third.body.id]).toEqual([first.body.id, first.body.id])
    const other = await post('/payments', { ...order, amount: '100.01' }, headers)
    expect(other).toMatchObject({ status: 422, body: { errors: [{ field: 'Idempotency-Key' }] } })
  })

  test('A-03 a scheduled payment is shown, waits for its time, and can be cancelled', async () => {
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

  test('a refused request leaves nothing behind', async () => {
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

  test.each<[string, string, unknown, Record<string, string>, number, string]>([
    ['a NUL in a text', '/payments', { ...order, creditAccount: 'USD\u0000' }, {}, 422, 'INVALID_INPUT'],
    ['half of a surrogate pair', '/payments', { ...order, creditAccount: 'USD\ud800' }, {}, 422, 'INVALID_INPUT'],
    ['a moment beyond every calendar', '/payments', outOfRange(), {}, 422, 'INVALID_INPUT'],
    ['an endless idempotency key', '/payments', order, { 'idempotency-key': 'k'.repeat(5_000) }, 422, 'INVALID_INPUT'],
    ['a body over the limit', '/payments', { ...order, colour: 'x'.repeat(1_000_001) }, {}, 413, 'TOO_LARGE'],
    ['a batch with a NUL in its name', '/batches', { payments: 1, name: 'a\u0000' }, {}, 422, 'INVALID_INPUT'],
  ])('A-05 %s is refused with a code, not as our failure', async (_, path, body, headers, status, code) => {
    expect(await post(path, body, headers)).toMatchObject({ status, body: { status, code } })
  })

  test('A-05 an invalid path is refused with a code', async () => {
    const answer = await raw('GET //[/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n').ended
    expect(answer).toMatch(/^HTTP\/1\.1 40[04] [\s\S]*"code":"/)
  })
})

function outOfRange(): object {
  return { ...order, valueDate: '9999-12-31', executeAt: '9999-12-31T23:59:59Z' }
}

/** A request written by hand, as no library would write it. */
function raw(text: string): { readonly ended: Promise<string>; readonly socket: Socket } {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
  socket.write(text)
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  // A connection that the server cuts ends all the same.
  socket.on('error', () => undefined)
  return { socket, ended: once(socket, 'close').then(() => Buffer.concat(chunks).toString()) }
}

describe('K-27 web pages', () => {
  const sent = (headers: string, body = JSON.stringify(order)) =>
    raw(`POST /payments HTTP/1.1\r\nConnection: close\r\nContent-Length: ${body.length}\r\n${headers}\r\n\r\n${body}`)
      .ended
  const count = async () => (await app.pool.query('select from payments.payment')).rowCount

  test.each([
    ['a foreign Host (DNS rebinding)', 'Host: evil.example\r\nContent-Type: application/json', 403, 'FOREIGN_HOST'],
    [
      'a Host that only begins like ours',
      'Host: localhost.evil.example\r\nContent-Type: application/json',
      403,
      'FOREIGN_HOST',
    ],
    [
      'a foreign Origin',
      'Host: localhost\r\nOrigin: https://evil.example\r\nContent-Type: application/json',
      403,
      'FOREIGN_ORIGIN',
    ],
    ['an opaque Origin', 'Host: localhost\r\nOrigin: null\r\nContent-Type: application/json', 403, 'FOREIGN_ORIGIN'],
    ['text/plain, which a page may send unasked', 'Host: localhost\r\nContent-Type: text/plain', 415, 'NOT_JSON'],
    ['no Content-Type at all', 'Host: localhost', 415, 'NOT_JSON'],
  ])('K-27 cannot make a payment: %s', async (_, headers, status, code) => {
    const before = await count()
    const answer = await sent(headers)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*"code":"${code}"`))
    expect(await count()).toBe(before)
  })

  test('K-27 our own page can, under each of our names', async () => {
    for (const host of ['localhost', '127.0.0.1:1234', '[::1]']) {
      const headers = `Host: ${host}\r\nOrigin: http://${host}\r\nContent-Type: application/json; charset=utf-8`
      expect(await sent(headers)).toMatch(/^HTTP\/1\.1 202 /)
    }
  })
})

test('K-23 a request that is never finished does not hold close()', async () => {
  const other = await serveRest(app, { closeWithinMs: 200 })
  const head =
    'POST /payments HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n'
  const socket = connect(Number(new URL(other.url).port), '127.0.0.1')
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  await new Promise<void>((written) => socket.write(`${head}{"debit`, () => written()))
  const gone = once(socket, 'close')
  await other.close()
  await gone
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

test('A-06 the books can be read by every caller', async () => {
  expect(await get('/books')).toMatchObject({ status: 200, body: { balanced: true, faults: [] } })
})
