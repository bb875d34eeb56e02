import { booksQuery, describeBooks } from '@holdfast/example-payments'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestPayments, type TestPayments } from './test-payments.js'

let app: TestPayments
let paid = ''
let refused = ''
beforeAll(async () => {
  app = await openTestPayments()
  const order = { debitAccount: 'EUR-ann', debitCurrency: 'EUR', amount: '10.10' }
  const { payment } = await app.submit({ ...order, creditAccount: 'USD-bob', creditCurrency: 'USD' })
  paid = payment.id
  const batch = await app.createBatch({
    payments: 1,
    model: 'STEP_BASED',
    behaviour: { bookRisk: { businessPct: 100 } },
  })
  const { rows } = await app.pool.query<{ id: string }>('select id from payments.payment where batch_id = $1', [
    batch.id,
  ])
  refused = rows[0]?.id ?? ''
  expect([await app.ended(paid), await app.ended(refused)]).toEqual(['COMPLETE', 'FAILED'])
})
afterAll(() => app.close())

test('A-06 the books balance, to the digit', async () => {
  const books = await app.books()
  expect(books).toMatchObject({ balanced: true, payments: { COMPLETE: 1, FAILED: 1 }, faults: [] })
  const euros = books.money.find(({ currency }) => currency === 'EUR')
  expect(euros).toMatchObject({ inFlight: '0', missing: expect.stringMatching(/^0(\.0+)?$/) })
  expect(describeBooks(books).at(-1)).toContain('The books balance')
})

const twice = (table: string, changes: string, by = 'payment_id') =>
  `insert into payments.${table} overriding system value
   select (jsonb_populate_record(null::payments.${table}, to_jsonb(one) || ${changes})).*
   from payments.${table} as one where ${by} = $1 limit 1`

/** Everything that may never happen, done by hand: the books have to find it. */
test.each<[what: string, sql: string, of: () => string, rule: RegExp]>([
  [
    'a posting that is lost',
    `delete from payments.ledger_entry where payment_id = $1 and kind = 'UNWIND'`,
    () => refused,
    /do not fit its status/,
  ],
  [
    'money that is lost',
    `update payments.ledger_entry set amount = amount - 0.01 where payment_id = $1 and account = 'in-flight' and kind = 'SETTLE'`,
    () => paid,
    /does not sum to zero/,
  ],
  [
    'a second settlement',
    twice('ledger_entry', `'{"id": -1, "kind": "SETTLE"}'`),
    () => paid,
    /do not fit its status|does not sum/,
  ],
  ['a second end', twice('status_change', `'{"id": -2, "to_status": "FAILED"}'`), () => paid, /ended more than once/],
  [
    'a second submission',
    twice('gateway_submission', `'{"reference": "GW-second"}'`),
    () => paid,
    /called twice for one submission/,
  ],
  [
    'a second risk booking',
    twice('risk_booking', `'{"reference": "R2", "idempotency_key": "k2"}'`),
    () => paid,
    /risk is booked twice/,
  ],
  [
    'a risk that was not unwound',
    `insert into payments.risk_booking values ('R3', $1, 'k3', 1, 'EUR', 'APPROVED')`,
    () => refused,
    /left behind/,
  ],
  [
    'a second contract',
    twice('fx_contract', `'{"contract_id": -5, "idempotency_key": "k4"}'`),
    () => paid,
    /bought twice/,
  ],
  [
    'another amount credited',
    `update payments.payment set credit_amount = credit_amount + 0.01 where id = $1`,
    () => paid,
    /another amount than it was submitted/,
  ],
  [
    'a submission left with the gateway',
    `insert into payments.gateway_submission values ('GW-left', $1, 'k5', 1, 'EUR')`,
    () => refused,
    /left with the gateway/,
  ],
  [
    'entries of no payment',
    `insert into payments.ledger_entry (payment_id, kind, account, currency, amount) select gen_random_uuid(), 'BOOK', 'x', $1::text, 0`,
    () => paid,
    /entries of no payment/,
  ],
])('A-06 the books find %s', async (_, sql, of, rule) => {
  const client = await app.pool.connect()
  try {
    await client.query('begin')
    await client.query(sql, [of()])
    const { rows } = await client.query<Awaited<ReturnType<typeof app.books>>>(booksQuery)
    expect(rows[0]?.balanced).toBe(false)
    expect(rows[0]?.faults.map(({ rule: found }) => found).join('; ')).toMatch(rule)
  } finally {
    await client.query('rollback')
    client.release()
  }
})

test('A-06 a payment whose money is missing breaks the equation', async () => {
  const client = await app.pool.connect()
  try {
    await client.query('begin')
    await client.query(`update payments.payment set status = 'PROCESSING', ended_at = null where id = $1`, [paid])
    const { rows } = await client.query<Awaited<ReturnType<typeof app.books>>>(booksQuery)
    expect(rows[0]?.money.find(({ currency }) => currency === 'EUR')).toMatchObject({
      inFlight: '10.10',
      missing: '-10.10',
    })
  } finally {
    await client.query('rollback')
    client.release()
  }
})
