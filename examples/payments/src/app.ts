import { type Holdfast, type HoldfastOptions, holdfast } from 'holdfast'
import pg from 'pg'
import { migratePayments } from './database/migrate.js'
import { type Books, readBooks } from './ledger/books.js'
import { type Definitions, definePayments, registerPayments } from './models/definitions.js'
import { type Answering, createAnswering } from './network/answering.js'
import { createPending, type Pending } from './network/pending.js'
import { asSpecified, limitKeys, type Pace } from './pace.js'
import type { Services } from './services/services.js'
import { simulatedFx } from './services/simulated/fx.js'
import { simulatedGateway } from './services/simulated/gateway.js'
import { simulatedRisk } from './services/simulated/risk.js'
import { type CreatedBatch, createBatch } from './submission/batch.js'
import { cancelPayment } from './submission/cancel.js'
import { endLeftBehind } from './submission/left-behind.js'
import { openAccounts } from './submission/payments.js'
import { type Standing, standingOf } from './submission/standing.js'
import { type Submitted, submitPayment } from './submission/submit.js'

export interface PaymentsOptions extends Pick<HoldfastOptions, 'logger' | 'migrate'> {
  readonly connectionString: string
  readonly pace?: Pace
  /** Connections of the application itself; Holdfast uses as many again. Default: 10. */
  readonly poolSize?: number
}

interface InstallOptions {
  readonly hf: Holdfast
  readonly pool: pg.Pool
  readonly pace: Pace
}

/** The payments application: what its REST endpoints, its workers and its demo are made of. */
export interface Payments {
  readonly hf: Holdfast
  readonly pool: pg.Pool
  readonly definitions: Definitions
  readonly answering: Answering
  readonly pending: Pending
  openAccounts(accounts: Parameters<typeof openAccounts>[1]): Promise<void>
  submit(body: unknown, idempotencyKey?: string): Promise<Submitted>
  createBatch(body: unknown): Promise<CreatedBatch>
  standing(paymentId: string): Promise<Standing | undefined>
  cancel(paymentId: string, by: { readonly actor: string; readonly reason: string }): Promise<void>
  /** Ends payments whose worker died before it could end them; workers call it now and then. */
  endLeftBehind(): Promise<number>
  books(): Promise<Books>
  close(): Promise<void>
}

/**
 * Opens the application on a database, and brings both schemas up to date.
 *
 * @example
 * const payments = await openPayments({ connectionString })
 * await payments.hf.run({ concurrency: 50 })
 * const { payment } = await payments.submit({ debitAccount: 'DE-1', creditAccount: 'DE-2', amount: '10.10', … })
 */
export async function openPayments(options: PaymentsOptions): Promise<Payments> {
  const { connectionString, pace = asSpecified, poolSize = 10, logger, migrate = true } = options
  const hf = await holdfast({ connectionString, poolSize, migrate, ...(logger ? { logger } : {}) })
  const pool = new pg.Pool({ connectionString, max: poolSize })
  // A connection that breaks while idle is replaced; a query on a broken connection rejects by itself.
  pool.on('error', () => undefined)
  if (migrate) {
    await migratePayments(pool)
    await setLimits(hf, pace)
  }
  return {
    ...installPayments({ hf, pool, pace }),
    async close() {
      await hf.close()
      await pool.end()
    },
  }
}

/** Defines and registers everything on an open Holdfast and a migrated database. The caller closes both. */
export function installPayments({ hf, pool, pace }: InstallOptions): Omit<Payments, 'close'> {
  const services: Services = { risk: simulatedRisk(pool), fx: simulatedFx(pool), gateway: simulatedGateway(pool) }
  const parts = { hf, pool, services, pace }
  const definitions = definePayments(parts)
  registerPayments(definitions, parts)
  const answering = createAnswering(hf, definitions)
  const submitting = { hf, pool, definitions }
  return {
    hf,
    pool,
    definitions,
    answering,
    pending: createPending(pool, answering),
    openAccounts: (accounts) => openAccounts(pool, accounts),
    submit: (body, idempotencyKey) => submitPayment(submitting, body, idempotencyKey),
    createBatch: (body) => createBatch(submitting, body),
    standing: (paymentId) => standingOf(submitting, paymentId),
    cancel: (paymentId, by) => cancelPayment({ hf, pool }, paymentId, by),
    endLeftBehind: () => endLeftBehind(submitting),
    books: () => readBooks(pool),
  }
}

/** How often the services may be called, by all workers together; an operator may change it at run time. */
async function setLimits(hf: Holdfast, pace: Pace): Promise<void> {
  const by = { actor: 'payments', reason: 'as agreed with the services' }
  for (const service of ['risk', 'fx', 'gateway'] as const) {
    const { callsPerSecond } = pace[service]
    await hf.limits.set(limitKeys[service], { ticketsPerSecond: callsPerSecond, description: `${service} service` }, by)
  }
}
