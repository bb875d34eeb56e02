import assert from 'node:assert'
import { readFile } from 'node:fs/promises'
import { asSpecified, demoAccounts, installPayments } from '@holdfast/example-payments'
import { type CrashTestOptions, crashTest, type Sql } from '@holdfast/testing'
import { connectionStringOf, isLongRun, longOr } from '@holdfast/testing/internal'
import type { Holdfast } from 'holdfast'
import pg from 'pg'
import { expect, test } from 'vitest'

type App = ReturnType<typeof installPayments>

/** What goes on when a worker is killed: the database with the services and the books in it. */
interface Outside {
  readonly sql: Sql
  readonly connectionString: string
  /** The application as each worker has it, on its own Holdfast and with connections of its own. */
  readonly apps: Map<Holdfast, App>
  submitter?: App
}

const sqlOf = (name: string) => readFile(new URL(`../../../examples/payments/sql/${name}.sql`, import.meta.url), 'utf8')
const literal = (value: unknown) => `'${JSON.stringify(value)}'::jsonb`
const prepare = [
  await sqlOf('0001_payments'),
  await sqlOf('0002_execution'),
  `insert into payments.account (number, holder, currency)
   select number, holder, currency
   from jsonb_to_recordset(${literal(demoAccounts)}) as (number text, holder text, currency text)`,
  `insert into holdfast.rate_limit (resource_key, tickets_per_second)
   values ('risk_api', 1000), ('fx_booking_api', 1000), ('payment_gateway', 1000)`,
].join(';\n')

/** `KILLS=1000` kills the scheduled payment everywhere; by default at some points, because the other one is killed at all. */
const KILLS = Number(process.env.KILLS ?? longOr(1_000, 3))

const order = {
  debitAccount: 'EUR-ann',
  creditAccount: 'USD-bob',
  amount: '100.00',
  debitCurrency: 'EUR',
  creditCurrency: 'USD',
}

async function createOutside(sql: Sql): Promise<Outside> {
  const [row] = await sql<{ name: string }>('select current_database() as name')
  return { sql, connectionString: connectionStringOf(row?.name ?? ''), apps: new Map() }
}

function setup(hf: Holdfast, { connectionString, apps }: Outside): void {
  const pool = new pg.Pool({ connectionString, max: 3, application_name: `app ${apps.size}` })
  // The connections of the dead are cut, also while they are in use.
  pool.on('connect', (client) => client.on('error', () => undefined))
  pool.on('error', () => undefined)
  apps.set(hf, installPayments({ hf, pool, pace: asSpecified }))
}

const appOf = ({ apps }: Outside, hf: Holdfast): App => apps.get(hf) ?? assert.fail('the application is not installed')

/** Submits under one key, as whoever is killed meanwhile does again: the transaction of the dead is rolled back first. */
async function submitOnce(outside: Outside, hf: Holdfast): Promise<string> {
  const app = await replaceSubmitter(outside, hf)
  return (await app.submit({ ...order, model: 'PROCESS_STEP' }, 'order-1')).payment.id
}

async function replaceSubmitter(outside: Outside, hf: Holdfast): Promise<App> {
  const before = outside.submitter?.pool.options.application_name
  if (before !== undefined) await outside.sql(cutText, [before])
  outside.submitter = appOf(outside, hf)
  return outside.submitter
}

const cutText = `
  select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = $1`

const confirms = (app: App, paymentId: string) =>
  (['L1', 'L2', 'L3', 'L4'] as const).map((level) => () => {
    const to = { paymentId, model: 'PROCESS_STEP', scheduled: false, processId: paymentId } as const
    return app.answering.network(to, { level, outcome: 'CONFIRMED', reference: `${level} of the network` })
  })

/** The invariant is the books: balanced, nothing in flight, every payment ended so. Answers how many there are. */
async function checkBooks(outside: Outside, app: App, status: 'COMPLETE' | 'FAILED'): Promise<number> {
  const { balanced, payments, faults, money } = await app.books()
  assert.deepEqual({ balanced, faults }, { balanced: true, faults: [] })
  assert.deepEqual(Object.keys(payments), [status])
  assert.ok(money.every(({ inFlight }) => Number(inFlight) === 0))
  for (const { pool } of outside.apps.values()) void pool.end()
  return payments[status] ?? 0
}

const crossing = {
  prepare,
  world: createOutside,
  setup,
  start: (hf, outside) => submitOnce(outside, hf),
  respond: (hf, paymentId, outside) => confirms(appOf(outside, hf), paymentId),
  async invariant({ hf, world }) {
    assert.equal(await checkBooks(world, appOf(world, hf), 'COMPLETE'), 1)
  },
} satisfies CrashTestOptions<Outside, string>

test('X-02 X-03 A-06 a payment across currencies is killed at every step: it is paid once, and the books balance', async () => {
  const report = await crashTest({ ...crossing, seeds: 0, kills: longOr(1_000, 3) })
  if (!isLongRun) return
  expect(report.kills).toBeGreaterThan(20)
  expect(report.killPoints).toEqual(expect.arrayContaining(['before processes.start#1', 'after limits.reserve#3']))
}, 300_000)

test.each(['1', '2', '3'])(
  'X-02 A-06 the network responds early, twice, late and out of order (%s): the books balance',
  async (seed) => {
    await crashTest({ ...crossing, seed })
  },
  60_000,
)

test('X-02 A-03 a scheduled payment that the gateway refuses, killed between the window and its undoing: nothing is left behind', async () => {
  const report = await crashTest({
    prepare,
    world: createOutside,
    setup,
    start: async (hf, outside) => {
      const app = await replaceSubmitter(outside, hf)
      const behaviour = { submit: { businessPct: 100 } }
      const executeAt = new Date().toISOString()
      // An order within one currency, to keep it short.
      await app.createBatch({ payments: 1, model: 'PROCESS_STEP', seed: 12, behaviour, executeAt })
    },
    kills: KILLS,
    async invariant({ hf, world }) {
      const app = appOf(world, hf)
      const released = await hf.dispatch.depth(app.definitions.PaymentWindow)
      // Whoever is killed after the commit does not know of it, and makes up another batch.
      const payments = await checkBooks(world, app, 'FAILED')
      assert.ok(payments === 1 || payments === 2)
      assert.deepEqual(released, { ...none, FAILED: payments })
    },
  })
  expect(report.kills).toBe(report.killPoints.length)
  expect(report.killPoints[0]).toBe('before dispatch.schedule#1')
}, 300_000)

const none = { READY: 0, CLAIMED: 0, DISPATCHED: 0, COMPLETED: 0, FAILED: 0, DEAD_LETTER: 0 }
