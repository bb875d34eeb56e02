import { assemble, openDatabase } from 'holdfast/internal'
import { processesOf } from './definitions.js'
import { type Notes, openNotes } from './notes.js'

/**
 * A worker, or somebody who responds, that stands still at one place and says so, goes on when it is told to, and says
 * when it has been refused.
 */
interface Options {
  readonly connectionString: string
  readonly domain: string
  /** A fault point, or the call of user code that begins (`first`, `undo first`). */
  readonly standsAt: { readonly point: string } | { readonly call: string }
  /** Instead of working: responds to this process. */
  readonly responds?: { readonly id: string; readonly responseId: string }
}

const { connectionString, domain, standsAt, responds }: Options = JSON.parse(process.argv[2] ?? '{}')
const told = new Promise<void>((resolve) => process.once('message', () => resolve()))
let stood = false

async function standIf(here: boolean, point?: string): Promise<void> {
  if (stood && point === 'before processes.claim') process.send?.({ what: 'looking again' })
  if (!here || stood) return
  stood = true
  process.send?.({ what: 'standing' })
  await told
}

const db = await openDatabase({
  connectionString,
  poolSize: 4,
  faults: (point) => standIf('point' in standsAt && standsAt.point === point, point),
})
const ignore = () => undefined
const logger = {
  debug: ignore,
  info: ignore,
  warn: (_: object, message: string) => void (message.startsWith('lease lost') && process.send?.({ what: 'refused' })),
  error: ignore,
}
const notes = openNotes(connectionString)
const standing: Notes = {
  ...notes,
  async called(id, call, after) {
    await notes.called(id, call, after)
    await standIf('call' in standsAt && standsAt.call === call)
  },
  async undone(id, call) {
    await notes.undone(id, call)
    await standIf('call' in standsAt && standsAt.call === `undo ${call}`)
  },
}
const hf = assemble(db, { logger })
const processes = processesOf(domain, standing)
processes.registerAll(hf)
if (responds) {
  await hf
    .process(processes.Journey, responds.id)
    .respond('approved', { by: 'a zombie' }, { responseId: responds.responseId })
  process.send?.({ what: 'responded' })
} else {
  await hf.run({ name: 'zombie', concurrency: 5, lease: '600ms', poll: '30ms' })
}
