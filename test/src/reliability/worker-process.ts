import { assemble, openDatabase } from 'holdfast/internal'
import { registerAll } from './definitions.js'

/** A worker of all models that dies when it meets a poisoned item. */
const { connectionString }: { connectionString: string } = JSON.parse(process.argv[2] ?? '{}')
const db = await openDatabase({ connectionString, poolSize: 6 })
const hf = assemble(db, {})
registerAll(hf)
await hf.run({ concurrency: 30, lease: '2s', poll: '20ms' })
