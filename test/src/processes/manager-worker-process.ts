import { dieAt } from '@holdfast/testing/internal'
import { assemble, openDatabase } from 'holdfast/internal'
import { Order, registerAll } from './manager-definitions.js'

/** A worker, or the starter of a process, that dies as by `kill -9` when it passes a fault point for the given time. */
const {
  connectionString,
  point,
  time,
  start,
}: { connectionString: string; point: string; time: number; start?: string } = JSON.parse(process.argv[2] ?? '{}')
const db = await openDatabase({ connectionString, poolSize: 4, faults: dieAt(point, time) })
const hf = assemble(db, {})
registerAll(hf)
if (start === undefined) await hf.run({ name: 'victim', concurrency: 5, lease: '3s', poll: '20ms' })
else await hf.start(Order, { of: start }, { id: start })
