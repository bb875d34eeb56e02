import { openPayments } from './app.js'
import { paces } from './pace.js'

/** A worker in a process of its own: runs until it is told to stop, or until its parent process is gone. */
export interface WorkerProcessOptions {
  readonly connectionString: string
  readonly pace: keyof typeof paces
  readonly concurrency?: number
  readonly lease?: `${number}ms` | `${number}s`
}

const options = JSON.parse(process.argv[2] ?? '{}') as WorkerProcessOptions
const { connectionString, pace, concurrency = 50, lease = '30s' } = options
const payments = await openPayments({ connectionString, pace: paces[pace], poolSize: 6, migrate: false })
const worker = await payments.hf.run({ concurrency, lease, poll: '500ms' })

const EVERY = 5_000
let looking: Promise<unknown> = Promise.resolve()
const looks = setInterval(() => {
  // A failure is left to the next round.
  looking = looking.then(() => payments.endLeftBehind()).catch(() => undefined)
}, EVERY)

let stopping = false
async function stop(): Promise<void> {
  if (stopping) return
  stopping = true
  clearInterval(looks)
  await looking
  await worker.stop('10s')
  await payments.close()
  process.exit(0)
}
process.once('SIGTERM', () => void stop())
// Ctrl-C reaches every process of the terminal; the parent process says when to stop.
process.on('SIGINT', () => undefined)
process.once('disconnect', () => void stop())
process.send?.({ what: 'running' })
