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
    'R-01 R-03 rate limits',
    'rate-limit',
    [
      '5 calls took 150 ms or more: true',
      'the first fax goes out: true',
      'the second does: false',
      'HF_RATE_LIMITED, to be tried again',
      'fax: 100 per second, burst 5, 0 waiting',
      'risk_api: 20 per second, burst 2, 0 waiting',
      'RATE_LIMIT_SET by ann: it is a slow machine',
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
