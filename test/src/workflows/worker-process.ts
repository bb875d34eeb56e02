import { dieAt, type Faults } from '@holdfast/testing/internal'
import { assemble, openDatabase } from 'holdfast/internal'
import { workflowsOf } from './definitions.js'
import { openNotes } from './notes.js'

interface Options {
  readonly connectionString: string
  readonly round: string
  /** Dies here, as by `kill -9`, when it passes for the given time. */
  readonly dies?: { readonly point: string; readonly time: number }
}

const { connectionString, round, dies }: Options = JSON.parse(process.argv[2] ?? '{}')
const faults: { faults?: Faults } = dies ? { faults: dieAt(dies.point, dies.time) } : {}
const hf = assemble(await openDatabase({ connectionString, poolSize: 4, ...faults }), {})
workflowsOf(round).handleAll(hf, openNotes(connectionString))
await hf.run({ name: `victim ${process.pid}`, concurrency: 5, lease: '9s', poll: '30ms' })
process.send?.({ what: 'running' })
