import { dieAt } from '@holdfast/testing/internal'
import { openDatabase, startListener } from 'holdfast/internal'
import { type TinyWorkerOptions, tinyWorker } from './run-tiny.js'

/** What a test passes to the process: `startWorkerProcess(tinyWorkerScript, options)`. */
export interface TinyProcessOptions
  extends Omit<TinyWorkerOptions, 'listener' | 'logger' | 'metrics' | 'onItem' | 'work'> {
  readonly connectionString: string
  /** Kill this process, as `kill -9` would, when it passes the fault point for the given time. */
  readonly dieAt?: { readonly point: string; readonly time: number }
}

const options: TinyProcessOptions = JSON.parse(process.argv[2] ?? '{}')
const db = await openDatabase({
  connectionString: options.connectionString,
  poolSize: 3,
  ...(options.dieAt ? { faults: dieAt(options.dieAt.point, options.dieAt.time) } : {}),
})
const listener = startListener(db)
const worker = tinyWorker(db, { ...options, listener, onItem: (event) => void process.send?.(event) })
worker.loop.start()
process.send?.({ what: 'ready' })

process.on('message', () => void stop())
process.on('SIGTERM', () => void stop())

async function stop(): Promise<void> {
  await worker.close()
  await listener.close()
  await db.close()
  process.disconnect?.()
}
