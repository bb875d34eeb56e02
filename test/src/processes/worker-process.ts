import { dieAt, type Faults } from '@holdfast/testing/internal'
import type { Duration } from 'holdfast'
import { assemble, openDatabase } from 'holdfast/internal'
import { processesOf } from './definitions.js'
import { openNotes } from './notes.js'

interface Options {
  readonly connectionString: string
  readonly domain: string
  /** Dies here, as by `kill -9`, when it passes for the given time. */
  readonly dies?: { readonly point: string; readonly time: number }
  readonly concurrency?: number
  readonly lease?: string
}

const {
  connectionString,
  domain,
  dies,
  concurrency = 5,
  lease = '600ms',
}: Options = JSON.parse(process.argv[2] ?? '{}')
const faults: { faults?: Faults } = dies ? { faults: dieAt(dies.point, dies.time) } : {}
const db = await openDatabase({ connectionString, poolSize: 4, ...faults })
const hf = assemble(db, {})
processesOf(domain, openNotes(connectionString)).registerAll(hf)
await hf.run({ name: `victim ${process.pid}`, concurrency, lease: lease as Duration, poll: '30ms' })
process.send?.({ what: 'running' })
