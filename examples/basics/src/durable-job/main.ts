import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { databaseFromEnvironment } from '@holdfast/embedded'
import { addInvoices, openDemo, readBooks, SCHEMA } from './invoices.js'

/**
 * A durable job in its smallest form: pays twelve invoices with a worker process, kills that worker with SIGKILL in the middle,
 * lets a second one continue, and shows that every invoice was paid once.
 */
const INVOICES = 12
const KILL_AFTER = 4

const say = (line = '') => void process.stdout.write(`${line}\n`)

interface Told {
  readonly what: 'called' | 'paid'
  readonly number: string
  readonly attempt?: number
}

let worker: ChildProcess | undefined
let stopping = false

function startWorker(connectionString: string, name: string, onTold: (told: Told) => void): ChildProcess {
  const child = fork(new URL('./worker.js', import.meta.url), [connectionString, name])
  child.on('message', (message) => onTold(message as Told))
  worker = child
  return child
}

say('Holdfast: a durable job that survives a kill')
say()
const database = await databaseFromEnvironment({ log: (line) => say(`  ${line}`) })
say(`Database: ${database.describe}`)
process.once('SIGINT', () => void interrupted('SIGINT'))
process.once('SIGTERM', () => void interrupted('SIGTERM'))

const db = await openDemo(database.connectionString)
const earlier = await readBooks(db)
say(`Schema "${SCHEMA}" is up to date; it holds ${earlier.paid} paid invoices of earlier runs.`)
if (earlier.open > 0) say(`${earlier.open} invoices were left open by a run that was killed: they are paid now.`)
const first = earlier.invoices + 1
await addInvoices(
  db,
  Array.from({ length: INVOICES }, (_, n) => `INV-${String(first + n).padStart(4, '0')}`),
)
const goal = earlier.open + INVOICES
say()

say(`${goal} invoices to pay. Worker A starts; it pays two at a time.`)
const called = new Set<string>()
let paid = 0
await new Promise<void>((resolve) => {
  const child = startWorker(database.connectionString, 'A', ({ what, number }) => {
    if (what === 'paid') {
      called.delete(number)
      paid += 1
      say(`  ${number} paid by A`)
    } else {
      called.add(number)
    }
    // In the middle: the bank has been called for the next two, nothing is recorded yet.
    if (paid >= KILL_AFTER && called.size === 2) child.kill('SIGKILL')
  })
  child.once('exit', () => resolve())
})
if (!stopping) {
  say(`  kill -9 of worker A, after it called the bank for ${[...called].join(' and ')} and before it recorded them`)
  say()
  say('Worker B starts. What A held is due again when its lease ends, within 2 s.')
  const child = startWorker(database.connectionString, 'B', ({ what, number, attempt = 1 }) => {
    if (what !== 'paid') return
    say(`  ${number} paid by B${attempt > 1 ? ` (attempt ${attempt}, with the same idempotency key)` : ''}`)
  })
  while (!stopping && (await readBooks(db)).open > 0) await new Promise((resolve) => setTimeout(resolve, 50))
  child.kill('SIGTERM')
  if (child.exitCode === null) await once(child, 'exit')
}

const books = await readBooks(db)
if (!stopping) {
  const runCalls = books.calls - earlier.calls
  const runBookings = books.bookings - earlier.bookings
  say()
  say(
    `Done: ${books.paid - earlier.paid} invoices paid, ${runBookings} payments booked by the bank, ${runCalls} calls made.`,
  )
  say('Where a call was repeated after the kill, its idempotency key was the same, and the bank booked it once.')
  say()
  say(`Run it again: it goes on from there. To look at the data yourself, connect to schema "${SCHEMA}" of`)
  say(`  ${database.describe}`)
}
const balanced = books.paid === books.invoices && books.bookings === books.invoices
await db.close()
await database.stop()
process.exitCode = stopping ? 130 : balanced ? 0 : 1

async function interrupted(signal: string): Promise<void> {
  stopping = true
  say(`\n${signal}: stopping; what is open is paid by the next run.`)
  worker?.kill('SIGTERM')
}
