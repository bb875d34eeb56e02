import { setTimeout as sleep } from 'node:timers/promises'
import { databaseFromEnvironment } from '@holdfast/embedded'
import { openPayments, type Payments } from '../app.js'
import { describeBooks } from '../ledger/books.js'
import { startSimulator } from '../network/simulator.js'
import { startOperator } from '../operating/operator.js'
import { hurried } from '../pace.js'
import { serveRest } from '../rest/server.js'
import { demoAccounts } from '../submission/accounts.js'
import { type DemoOptions, readArguments, usage } from './arguments.js'
import { createDemoBatches, WINDOW_AHEAD } from './batches.js'
import { type Crew, startCrew } from './crew.js'
import { answerForPeople } from './people.js'
import { createScreen, type Screen } from './screen.js'
import { type Snapshot, takeSnapshot } from './snapshot.js'

/** The demo of `npm start`: everything that a payments application is made of, on one machine. */
const KILL_EVERY = 3_000
const LOOK_EVERY = 250

const screen = createScreen(process.stdout)
const stopping = new AbortController()
const options = readArguments(process.argv.slice(2))
if (options === 'help') screen.say(usage)
else if ('problem' in options) {
  process.stderr.write(`${options.problem}\n\n${usage}\n`)
  process.exitCode = 2
} else process.exitCode = await run(options)

async function run(given: DemoOptions): Promise<number> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort(signal))
  screen.say('Holdfast: payments that survive anything')
  const database = await databaseFromEnvironment({ log: (line) => screen.say(`  ${line}`) })
  screen.say(`Database: ${database.describe}`)
  try {
    return await runOn(database.connectionString, given)
  } finally {
    await database.stop()
  }
}

async function runOn(connectionString: string, given: DemoOptions): Promise<number> {
  const payments = await openPayments({ connectionString, pace: hurried })
  await payments.openAccounts(demoAccounts)
  const rest = await serveRest(payments, { port: given.port }).catch(() => serveRest(payments))
  await welcome(payments, given)
  const crew = startCrew(given.workers, { connectionString, pace: 'hurried', concurrency: 50, lease: '5s' })
  const simulator = startSimulator({ ...payments, everyMs: 200 })
  const operator = startOperator(payments)
  screen.say(`REST: ${rest.url}, try  curl ${rest.url}/books`)
  screen.say()
  try {
    await watch(payments, { given, crew, url: rest.url })
  } finally {
    screen.leave()
    if (stopping.signal.aborted) screen.say(`${String(stopping.signal.reason)}: draining the workers …`)
    await rest.close()
    await Promise.all([simulator.stop(), operator.stop(), crew.stop()])
  }
  return finish(payments, given)
}

async function welcome(payments: Payments, given: DemoOptions): Promise<void> {
  const { total, ended } = await takeSnapshot(payments)
  if (ended < total) {
    screen.say(`${total - ended} payments of an earlier run are open: they continue.`)
    return
  }
  if (total > 0) screen.say(`${total} payments of earlier runs are settled.`)
  await createDemoBatches(payments, given)
  screen.say(
    `${given.payments} payments made up from seed "${given.seed}": as sequential code, as state machines, and a`,
  )
  screen.say(`quarter of them scheduled, due together in ${WINDOW_AHEAD} s.`)
  if (given.chaos) screen.say(`Chaos: every ${KILL_EVERY / 1_000} s one of the workers is killed.`)
}

interface Watched {
  readonly given: DemoOptions
  readonly crew: Crew
  readonly url: string
}

/** Shows what happens until it is over: everything settled with `--once`, or Ctrl-C. */
async function watch(payments: Payments, { given, crew, url }: Watched): Promise<void> {
  const began = performance.now()
  const settled: { readonly at: number; readonly ended: number }[] = []
  let killAt = began + KILL_EVERY
  let told = false
  while (!stopping.signal.aborted) {
    await answerForPeople(payments, given.once ? 1_000 : 8_000)
    const snapshot = await takeSnapshot(payments)
    const now = performance.now()
    settled.push({ at: now, ended: snapshot.ended })
    if (settled.length > 12) settled.shift()
    const [first] = settled
    const rate = first && now > first.at ? ((snapshot.ended - first.ended) * 1_000) / (now - first.at) : 0
    const workers = `${crew.size} workers${crew.killed > 0 ? `, ${crew.killed} killed` : ''}`
    screen.show({ snapshot, seconds: Math.round((now - began) / 1_000), rate, url, workers })
    if (isOver(snapshot)) {
      if (given.once) return
      if (!told) invite(screen, url)
      told = true
    } else if (given.chaos && now > killAt) {
      const pid = crew.kill()
      if (pid !== undefined && !process.stdout.isTTY) screen.say(`kill -9 of worker ${pid}`)
      killAt = now + KILL_EVERY
    }
    await sleep(process.stdout.isTTY ? LOOK_EVERY : 1_000, undefined, { signal: stopping.signal }).catch(
      () => undefined,
    )
  }
}

/** Every payment has ended, and everything that the window has released. */
function isOver({ ended, total, window }: Snapshot): boolean {
  return ended === total && (window?.dispatched ?? 0) === 0
}

function invite(on: Screen, url: string): void {
  const say = (line?: string) => on.say(line)
  on.leave()
  say()
  say('All settled. Everything keeps running; submit a payment of your own, in another terminal:')
  say(`  curl -s ${url}/payments -H 'Prefer: wait=10' -H 'Content-Type: application/json' -d '{"model": "STEP_BASED",`)
  say(`    "debitAccount": "EUR-ann", "creditAccount": "USD-bob", "amount": "100.00", "debitCurrency": "EUR",`)
  say(`    "creditCurrency": "USD"}'`)
  say('Ctrl-C ends it.')
  say()
}

async function finish(payments: Payments, { once }: DemoOptions): Promise<number> {
  const books = await payments.books()
  const { total, ended } = await takeSnapshot(payments)
  screen.say()
  for (const line of describeBooks(books)) screen.say(line)
  if (ended < total) screen.say(`${total - ended} payments are open; the next start continues them.`)
  await payments.close()
  if (!books.balanced) return 1
  return once && ended < total ? 130 : 0
}
