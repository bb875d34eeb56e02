import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { dropTestDatabase, testDatabase } from '@holdfast/testing'
import { sampled } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'

const oneServer = new URL('../../dist/demo/one-server/register.js', import.meta.url).href
/** These run wholly as a user runs them; the others use a database of the test server. */
const WITH_THEIR_OWN_SERVER = new Set(['send-and-handle', 'workflow-two-services'])

/** Runs an example as a user does: the build, in a process of its own. */
async function run(example: string): Promise<string[]> {
  const main = fileURLToPath(new URL(`../../../examples/basics/dist/${example}/main.js`, import.meta.url))
  const { args, env } = WITH_THEIR_OWN_SERVER.has(example) ? { args: [], env: process.env } : await onTestServer()
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [...args, main], { env, timeout: 60_000 })
  expect(beside(stderr)).toEqual([])
  return stdout.split('\n')
}

async function onTestServer(): Promise<{ readonly args: readonly string[]; readonly env: NodeJS.ProcessEnv }> {
  const database = await testDatabase()
  onTestFinished(() => dropTestDatabase(database))
  return { args: ['--import', oneServer], env: { ...process.env, DATABASE_URL: database.connectionString } }
}

/** What is on stderr besides the reports of failures that the examples make on purpose (K-21), and their stacks. */
const beside = (stderr: string) =>
  stderr
    .split('\n')
    .filter((line) => line !== '' && !/^ {4}| holdfast: .* event=(attempt_failed|needs_person) /.test(line))

/** `npm test` runs some of them, `npm run test:long` all. */
const EXAMPLES: readonly [rule: string, example: string, output: string[]][] = [
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
      '3 in troubleshooting with NO_ROUTE',
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
    'P-24 a loop without an end',
    'subscription',
    [
      'ada pays for month 1',
      'ada pays for month 2',
      'ada pays for month 3',
      'ended by the customer',
      'one process: true',
    ],
  ],
  [
    'U-06 one place for what needs a person',
    'needs-a-person',
    [
      '3 processes of Payout at pay: BANK_DOWN, such as: no connection to the bank',
      '2 commands of Pay: BANK_DOWN, such as: no connection to the bank',
      'B-3 at pay after 1: retry, complete, cancel, skip',
      'B-2 at pay after 1: retry, complete, cancel, skip',
      'B-1 at pay after 1: retry, complete, cancel, skip',
      '5 are with ann',
      '1 done, 0 refused',
      '4 done, 0 refused',
      '3 done, 0 refused',
      'B-3',
      '0 need a person',
    ],
  ],
  [
    'P-16 operator repair',
    'operator-repair',
    [
      '500 cents held',
      'WAITING_FOR_TSQ',
      'PERMANENT_FAILURE: NO_ACCOUNT: no such account: ED-1',
      'it waits for a person',
      'Payout at pay: no such account: ED-1',
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
      '5 ready, 5 per second',
      ...['PAY-1', 'PAY-2', 'PAY-3', 'PAY-4', 'PAY-5'].map((payment) => `${payment}: 500 cents to DE-1`),
      'exec:payments/Settlement:PAY-5:0 COMPLETED, not before its time: true',
      '5 batches',
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
    'W-08 a workflow that undoes itself',
    'workflow-saga',
    [
      'flight booked with attempt 2 of 5',
      '{ car: null }',
      'flight booked with attempt 2 of 5',
      'car returned, if there was one: none',
      'hotel cancelled',
      'flight cancelled: {"ticket":"LH-1","wantsCar":true,"traveller":"bob"}',
      'workflow travel/trip … ended FAILED with SOLD_OUT: no cars left',
      'trip-v1                                           FAILED',
      'consult  Consult                                  COMPLETED',
      'advised  save point                               COMPLETED',
      'flight   BookFlight ↩ cancelFlight: CancelFlight  ROLLED_BACK, attempt 2',
      'hotel    BookHotel ↩ cancelHotel: CancelHotel     ROLLED_BACK',
      'car      RentCar ↩ returnCar: ReturnCar           ROLLED_BACK: SOLD_OUT',
    ],
  ],
  [
    'W-08 P-14 the same as a workflow and as a process',
    'workflow-or-process',
    [
      'ORD-1 to Paris, as a workflow',
      '  ORD-1: charged under /charge',
      '  COMPLETED',
      'ORD-1 to Paris, as a process',
      '  ORD-1: charged under /charge',
      '  COMPLETED',
      'ORD-2 to the moon, as a workflow',
      '  ORD-2: charged under /charge',
      '  R-ORD-2: refunded',
      '  shelf of ORD-2: put back',
      '  FAILED',
      'ORD-2 to the moon, as a process',
      '  ORD-2: charged under /charge',
      '  R-ORD-2: refunded',
      '  shelf of ORD-2: put back',
      '  COMPENSATED',
    ],
  ],
  [
    'W-06 W-07 W-16 fork and join with conditions',
    'workflow-fork-join',
    [
      "{ quick: { euros: 9, courier: 'quick' } }",
      "{ isBig: 'low risk', isDigital: 'ORD-1 packed' }",
      'fulfilment-v1                                                            COMPLETED',
      'prepare          fork                                                    COMPLETED',
      '├─ isDigital     {{ eq .kind "digital" }}                                COMPLETED, no',
      '│  ├─ else pack  Pack                                                    COMPLETED',
      '│  makeLink      MakeLink',
      '└─ isBig         {{ and (gt .total 1000) (ne .customer.kind "staff") }}  COMPLETED, yes',
      '   assess        AssessRisk                                              COMPLETED',
      'prepared         join all                                                COMPLETED',
      'quotes           fork                                                    COMPLETED',
      '├─ slow          AskSlowCourier                                          SKIPPED: HF_STOPPED',
      '└─ quick         AskQuickCourier                                         COMPLETED',
      'chosen           join any                                                COMPLETED',
    ],
  ],
  [
    'W-10 a human decision',
    'workflow-human-decision',
    [
      '20 euros to DE-1',
      'P-5000: COMPLETED, 5000 euros to DE-2',
      '  approve: confirm by ann, invoice seen',
      '  eve: HF_WRONG_STATUS',
      'P-9999: ABORTED, HF_NOT_COMPLETED',
      '  approve: reject by bob, we owe them nothing',
      '  eve: HF_WRONG_STATUS',
    ],
  ],
  [
    'W-09 a dead letter is retried',
    'workflow-dead-letter',
    [
      'money held',
      'payroll-v1   dlq          DLQ',
      'hold         HoldMoney    COMPLETED',
      'pay          fork         COMPLETED',
      '├─ transfer  Transfer     PAUSED in the DLQ: NO_ACCOUNT',
      '└─ payslip   SendPayslip  PAUSED',
      'paid         join all     PENDING',
      'Step `transfer` failed for good with NO_ACCOUNT: no such account: "ED-1". Retry, complete or cancel it.',
      '1 with NO_ACCOUNT: no such account: "ED-1"',
      "{ payslip: 'sent', transfer: 'paid to DE-1 with attempt 1' }",
      'HF_WRONG_STATUS',
      'dlq_requeued of transfer by ann: two letters were swapped',
    ],
  ],
  [
    'K-20 a bank that pays and loses the connection is asked, or a person',
    'workflow-unknown-outcome',
    ['the bank pays', '{ receipt: 1 }', 'the bank pays', 'OUTCOME_UNKNOWN', '{ receipt: 2 }'],
  ],
  [
    'W-04 two services with handlers of their own',
    'workflow-two-services',
    [
      'ORD-1: charged by the billing service, shipped by the warehouse',
      'billing: ORD-2 refunded',
      'HF_NOT_COMPLETED',
      'purchase-v1                                           FAILED',
      'charge       billing.Charge ↩ refund: billing.Refund  ROLLED_BACK',
      'ship         warehouse.Ship                           ROLLED_BACK: SOLD_OUT',
    ],
  ],
  [
    'W-03 W-14 a definition from a file',
    'workflow-from-file',
    [
      'order-v1',
      'charge            ChargeCard ↩ refund: RefundCard',
      'fulfil            fork',
      '├─ isBig          {{ gt .total 100 }}',
      '│  ├─ else thank  SendThanks',
      '│  approve        a person confirms',
      '└─ ship           ShipOrder',
      'fulfilled         join all',
      'flowchart TD',
      '    s0["charge<br/>ChargeCard"]',
      '    s0u["refund<br/>RefundCard"]',
      '    s0 -.-> s0u',
      '    s0 --> s1',
      '    s1{{"fulfil<br/>fork"}}',
      '    s1 --> s2',
      '    s1 --> s5',
      '    s2{"isBig<br/>#123;#123; gt .total 100 #125;#125;"}',
      '    s2 -->|yes| s4',
      '    s2 -->|no| s3',
      '    s3["thank<br/>SendThanks"]',
      '    s3 --> s6',
      '    s4[/"approve<br/>a person confirms"/]',
      '    s4 --> s6',
      '    s5["ship<br/>ShipOrder"]',
      '    s5 --> s6',
      '    s6{{"fulfilled<br/>join all"}}',
      '    s6 --> done',
      '    done(["end"])',
      'it needs ChargeCard, RefundCard, SendThanks, ShipOrder',
      "{ ship: 'shipped', isBig: 'thanks, by version 1' }",
      'HF_WORKFLOW_CHANGED',
      "{ ship: 'shipped', isBig: 'thanks, by version 2' }",
      "{ ship: 'shipped', isBig: 'thanks, by version 1' }",
    ],
  ],
  [
    'W-11 W-12 W-15 what people do with workflows',
    'workflow-operations',
    [
      'workflow payments/payment-v1 was not started: the hook auditors refused it: the books are closed',
      'write: PENDING, no worker has WriteReport: true',
      'payment, attempt 1',
      'report written',
      'pay: PENDING after attempt 1, BANK_CLOSED',
      'payment, attempt 2',
      'told to stop',
      'ledger closed again',
      'HF_NOT_COMPLETED',
      'import-v1                                   CANCELLED',
      'open       OpenLedger ↩ close: CloseLedger  ROLLED_BACK',
      'copy       CopyRows                         ROLLED_BACK: HF_STOPPED',
      'told to stop',
      'HF_NOT_COMPLETED',
      'import-v1                                   ABORTED',
      'open       OpenLedger ↩ close: CloseLedger  COMPLETED',
      'copy       CopyRows                         SKIPPED: HF_STOPPED',
      'COMPLETED: payment, report',
      'CANCELLED: import',
      'ABORTED: import',
      'DLQ: none',
      'removed: 0',
      'reports/report completed, payments/payment completed, reports/import CANCELLED, reports/import ABORTED',
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
]

test.each(sampled(EXAMPLES, 3))(
  '%s: the example %s does what it says',
  async (_, example, output) => {
    expect(await run(example)).toEqual([...output, ''])
  },
  60_000,
)
