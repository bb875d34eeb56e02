import { dieAt, type Faults } from '@holdfast/testing/internal'
import { assemble, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { onProcesses, onRemote } from './definitions.js'

interface Options {
  readonly connectionString: string
  readonly domain: string
  readonly remote: boolean
  /** Dies here, as by `kill -9`, when it passes for the given time. */
  readonly dies: { readonly point: string; readonly time: number }
}

const { connectionString, domain, remote, dies }: Options = JSON.parse(process.argv[2] ?? '{}')
const faults: Faults = dieAt(dies.point, dies.time)
const db = await openDatabase({ connectionString, poolSize: 4, faults })
const hf = assemble(db, {})
if (remote) hf.register(onRemote(domain, {}, new pg.Pool({ connectionString, max: 2 })))
else {
  const { Pay, Settlement } = onProcesses(domain, {})
  hf.register(Settlement)
  hf.register(Pay)
}
await hf.run({ name: `victim ${process.pid}`, lease: '400ms', poll: '20ms' })
