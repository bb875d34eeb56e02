import {
  demoAccounts,
  openPayments,
  type Pace,
  type Payments,
  patient,
  type Simulator,
  startSimulator,
} from '@holdfast/example-payments'
import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { moveClock, openDatabase } from 'holdfast/internal'

export interface TestPayments extends Payments {
  readonly connectionString: string
  readonly simulator: Simulator
  /** The payment once it has ended, one way or the other. */
  ended(paymentId: string): Promise<string>
  /** Moves the clock that time limits and deadlines go by. */
  moveClock(milliseconds: number): Promise<void>
}

interface Options {
  readonly pace?: Partial<Pace>
  /** Runs a worker beside the test, unless told not to. */
  readonly works?: boolean
  readonly simulateEvery?: number
}

/** The application on a database of the test's own, with accounts, a worker and a world that answers at once. */
export async function openTestPayments({
  pace,
  works = true,
  simulateEvery = 20,
}: Options = {}): Promise<TestPayments> {
  const { connectionString } = await testDatabase()
  const payments = await openPayments({ connectionString, pace: { ...patient, ...pace } })
  await payments.openAccounts(demoAccounts)
  const clock = await openDatabase({ connectionString, poolSize: 1 })
  const simulator = startSimulator({ ...payments, everyMs: simulateEvery })
  if (works) await payments.hf.run({ concurrency: 50, poll: '50ms' })
  return {
    ...payments,
    connectionString,
    simulator,
    ended: (paymentId) =>
      waitFor(`payment ${paymentId} has ended`, async () => {
        const standing = await payments.standing(paymentId)
        // Its last step ends the payment; what its process keeps is written after that.
        const moves = standing?.process === 'EXECUTING' || standing?.process === 'COMPENSATING'
        return standing?.payment.endedAt && !moves ? standing.payment.status : undefined
      }),
    moveClock: (milliseconds) => moveClock(clock, milliseconds),
    async close() {
      await simulator.stop()
      await payments.close()
      await clock.close()
    },
  }
}
