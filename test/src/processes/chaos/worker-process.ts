import { assemble, openDatabase } from 'holdfast/internal'
import { openNotes } from '../notes.js'
import { ordersOf } from './orders.js'

/** A worker that lives until it is killed. */
const { connectionString, domain }: { connectionString: string; domain: string } = JSON.parse(process.argv[2] ?? '{}')
const hf = assemble(await openDatabase({ connectionString, poolSize: 4 }), {})
hf.register(ordersOf(domain, openNotes(connectionString, 2)))
await hf.run({ concurrency: 10, lease: '1s', poll: '100ms' })
process.send?.({ what: 'running' })
