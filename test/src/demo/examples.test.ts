import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

/** Runs an example as a user does: the build, in a process of its own. */
async function run(example: string): Promise<string[]> {
  const main = fileURLToPath(new URL(`../../../examples/basics/dist/${example}/main.js`, import.meta.url))
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [main], { timeout: 60_000 })
  expect(stderr).toBe('')
  return stdout.split('\n')
}

test.each<[rule: string, example: string, output: string[]]>([
  [
    'C-01 define, send and handle',
    'send-and-handle',
    ['attempt 1: booking 25000 cents of PAY-1', 'booked as RISK-PAY-1', 'COMPLETED: SENT, RECEIVED, COMPLETED'],
  ],
  [
    'C-13 retry and troubleshoot',
    'retry-and-troubleshoot',
    [
      'done with attempt 2: SENT, RECEIVED, RETRY_SCHEDULED, RECEIVED, COMPLETED',
      '3 in troubleshooting with NO_ROUTE, such as: no route to "ED-2"',
      'cancelled: done, done',
      'COMPLETED: OPERATOR_RETRY by ann, two letters were swapped',
      'CANCELLED: OPERATOR_CANCEL by bob, we do not pay abroad',
      'CANCELLED: OPERATOR_CANCEL by bob, we do not pay abroad',
    ],
  ],
  [
    'C-10 replies',
    'reply',
    [
      'SUCCESS, final, ours',
      '  receipt CARD-1: 2500 cents',
      'FAILED, final, ours',
      '  BUSINESS_RULE OVER_LIMIT: over the limit of the card',
    ],
  ],
  [
    'C-12 batches',
    'batch',
    [
      '0 of 3 paid',
      'salaries: COMPLETED_WITH_FAILURES, 2 of 3 paid, 1 failed',
      'not paid: carl, the account is closed',
      'bonuses: COMPLETED, 2 of 2 paid',
    ],
  ],
  [
    'M-01 M-04 step-based processes',
    'order-manager',
    [
      'ORD-1: reserved',
      'ORD-1: 2500 cents charged',
      'ORD-1: receipt R-ORD-1, parcel P-9',
      'ORD-1: COMPLETED',
      'ORD-2: reserved',
      'ORD-2: A7 released',
      'ORD-2: COMPENSATED',
    ],
  ],
  [
    'K-15 C-06 your own transactions',
    'own-transaction',
    ['payments: PAY-1', 'command: COMPLETED with attempt 2', 'booking: 25000 cents of PAY-1'],
  ],
  [
    'K-18 pausing',
    'pause',
    [
      'PENDING: domain:payments is paused by ann, the bank is down',
      'transferred to DE-1',
      'PAUSED by ann: the bank is down',
      'RESUMED by bob: the bank is back',
    ],
  ],
  [
    'P-02 P-03 P-10 P-11 a first process',
    'first-process',
    [
      'booking 25000 cents under /bookRisk',
      'WAITING_FOR_ASYNC',
      'started again: false',
      'waits for approval',
      'receipt for PAY-1, booked as RISK-PAY-1, approved by ann',
      'COMPLETED',
      '  PROCESS_CREATED',
      '  STEP bookRisk COMPLETED',
      '  WAIT approval STARTED',
      '  ASYNC_RESPONSE approved COMPLETED',
      '  WAIT approval COMPLETED',
      '  STEP submit COMPLETED',
    ],
  ],
  [
    'P-14 compensation',
    'compensation',
    ['cancelled: room for ann', 'cancelled: flight for ann', 'COMPENSATED', 'SOLD_OUT: no cars left'],
  ],
  [
    'P-15 P-11 a deadline',
    'deadline',
    [
      'PAY-1: settled',
      'released: funds of PAY-2',
      'PAY-2: COMPENSATED, DEADLINE_EXCEEDED',
      'PAY-2: still COMPENSATED, now {"payment":"PAY-2","confirmed":true}',
    ],
  ],
  [
    'P-05 K-15 a transactional step',
    'transactional-step',
    ['balance 500 after 2 calls', 'rows: A-1 500', 'started by what was rolled back: 0'],
  ],
  [
    'P-05 P-06 children',
    'child-process',
    [
      'WAITING_FOR_ASYNC',
      'EUR/USD at 2',
      'USD/JPY at 2',
      'leg#3: the child ended COMPENSATED: nobody trades XXX',
      '3 children',
    ],
  ],
  [
    'P-02 P-13 R-02 a rate-limited step',
    'rate-limited-step',
    ['scores 0, 1, 2, 3, 4, 5, 6, 7', '2 at once and 20 per second take 300 ms or more: true'],
  ],
  [
    'P-16 operator repair',
    'operator-repair',
    [
      '500 cents held',
      'WAITING_FOR_TSQ',
      'PERMANENT_FAILURE: NO_ACCOUNT: no such account: ED-1',
      'it waits for a person',
      'paid to DE-1',
      'TSQ_RETRY by ann: two letters were swapped',
    ],
  ],
  [
    'D-01 two phases',
    'two-phase',
    [
      '5 scheduled',
      '5 were there already',
      '5 ready, 10 per second',
      ...['PAY-1', 'PAY-2', 'PAY-3', 'PAY-4', 'PAY-5'].map((payment) => `${payment}: 500 cents to DE-1`),
      'exec-payment-PAY-5 COMPLETED, not before its time: true',
      '3 batches',
    ],
  ],
  [
    'D-04 the kill switch',
    'kill-switch',
    [
      '0 ready, 250 dispatched, 0 completed',
      'half a second after the time: 0 paid; 0 ready, 250 dispatched, 0 completed',
      '250 paid, each once: true',
      '{"enabled":false} by ann: the bank is on the phone',
      '{"enabled":true} by ann: a false alarm',
    ],
  ],
  [
    'R-01 R-03 rate limits',
    'rate-limit',
    [
      '5 calls took 150 ms or more: true',
      'the first fax goes out: true',
      'the second does: false',
      'HF_RATE_LIMITED, to be tried again',
      'fax: 100 per second, burst 5, 0 waiting',
      'risk_api: 20 per second, burst 2, 0 waiting',
      'RATE_LIMIT_DEFINED by the service',
      'RATE_LIMIT_SET by bob: we have bought a new one',
    ],
  ],
])(
  '%s: the example %s does what it says',
  async (_, example, output) => {
    expect(await run(example)).toEqual([...output, ''])
  },
  60_000,
)
