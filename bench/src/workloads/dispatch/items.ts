import { defineDispatch, defineProcess, type Holdfast, processTarget } from 'holdfast'
import type { DispatchSettings } from 'holdfast/types'
import { z } from 'zod'

/** What phase A leaves behind, about 250 bytes of it. */
const Context = z.object({
  paymentId: z.string(),
  amount: z.string(),
  currency: z.string(),
  debtor: z.string(),
  creditor: z.string(),
  note: z.string(),
})

export const Noop = defineProcess('bench', 'Noop', { state: Context, execute: async () => undefined })

export const settlementOf = (config: DispatchSettings) =>
  defineDispatch('bench', 'Settlement', { target: processTarget(Noop), settings: { jitterWindow: 0, ...config } })

type Settlement = ReturnType<typeof settlementOf>

const CHUNK = 5_000
/** One call per connection at a time; more than two gain nothing on two cores. */
const CALLERS = 2

/** Schedules so many items for the same instant, from two callers. */
export async function scheduleAll(hf: Holdfast, settlement: Settlement, count: number, startAt: Date): Promise<void> {
  let next = 0
  async function call(): Promise<void> {
    while (next < count) {
      const from = next
      next += CHUNK
      const length = Math.min(CHUNK, count - from)
      await hf.schedule(
        settlement,
        Array.from({ length }, (_, place) => itemAt(from + place, startAt)),
      )
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, call))
}

function itemAt(place: number, startAt: Date) {
  const key = `PAY-${String(place).padStart(9, '0')}`
  const context = {
    paymentId: key,
    amount: '1250.00',
    currency: 'CHF',
    debtor: 'CH9300762011623852957',
    creditor: 'DE89370400440532013000',
    note: 'invoice 2026-0042, thank you for your business and see you again soon',
  }
  return { key, context, startAt }
}
