import { dieAt } from '@holdfast/testing/internal'
import { assemble, openDatabase } from 'holdfast/internal'
import { handleAll } from './definitions.js'

/** A worker that dies, as by `kill -9`, when it passes a fault point for the given time. */
const { connectionString, point, time }: { connectionString: string; point: string; time: number } = JSON.parse(
  process.argv[2] ?? '{}',
)
const db = await openDatabase({ connectionString, poolSize: 4, faults: dieAt(point, time) })
const hf = assemble(db, {})
handleAll(hf)
await hf.run({ name: 'victim', concurrency: 3, lease: '3s', poll: '20ms' })
