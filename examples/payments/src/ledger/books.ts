import { readFile } from 'node:fs/promises'
import type pg from 'pg'
import type { PaymentStatus } from '../domain/status.js'

/** What the books say at one moment. */
export interface Books {
  /** Nothing is missing anywhere. */
  readonly balanced: boolean
  readonly payments: Readonly<Partial<Record<PaymentStatus, number>>>
  readonly money: readonly {
    readonly currency: string
    readonly booked: string
    readonly settled: string
    readonly unwound: string
    readonly inFlight: string
    /** booked − settled − unwound − in flight */
    readonly missing: string
  }[]
  readonly faults: readonly { readonly rule: string; readonly payments: number; readonly examples: readonly string[] }[]
}

/** `sql/books.sql` */
export const booksQuery = await readFile(new URL('../../sql/books.sql', import.meta.url), 'utf8')

/** One query, one snapshot: true at any moment, whatever is going on. */
export async function readBooks(pool: pg.Pool): Promise<Books> {
  const { rows } = await pool.query<Books>(booksQuery)
  const [books] = rows
  if (!books) throw new Error('the books answered nothing')
  return books
}

const right = (text: string) => text.padStart(18)

/** The books for people. */
export function describeBooks({ balanced, payments, money, faults }: Books): string[] {
  const counts = Object.entries(payments).map(([status, n]) => `${n} ${status}`)
  return [
    `Payments: ${counts.join(', ') || 'none'}`,
    `${'currency'.padEnd(10)}${['booked', 'settled', 'unwound', 'in flight', 'missing'].map(right).join('')}`,
    ...money.map(
      ({ currency, booked, settled, unwound, inFlight, missing }) =>
        `${currency.padEnd(10)}${[booked, settled, unwound, inFlight, missing].map(right).join('')}`,
    ),
    ...faults.map(({ rule, payments: n, examples }) => `FAULT: ${rule}: ${n} payments, such as ${examples.join(', ')}`),
    balanced
      ? 'The books balance: booked = settled + unwound + in flight, every payment ended at most once, no effect was doubled.'
      : 'THE BOOKS DO NOT BALANCE.',
  ]
}
