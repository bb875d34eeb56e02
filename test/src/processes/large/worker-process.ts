import { assemble, openDatabase } from 'holdfast/internal'
import { Import } from './definitions.js'

const { connectionString }: { connectionString: string } = JSON.parse(process.argv[2] ?? '{}')
const db = await openDatabase({ connectionString, poolSize: 4 })
const hf = assemble(db, {})
hf.register(Import)
await hf.run({ concurrency: 20, poll: '50ms', lease: '10s' })
process.send?.({ what: 'running' })
