import { titleOf } from '../../harness/report/title.js'
import { drainingLibraries } from './libraries.js'
import type { SecondOrder, SecondReport } from './second-worker.js'

// The second worker process of a drain: connects, waits for the word, and tells how many jobs it has handled.

/** Often enough that the end of a drain is not missed by more than the harness's own glance at the database. */
const REPORT_EVERY_MS = 5

process.on('SIGINT', () => undefined)
process.on('disconnect', () => process.exit(0))

const { options, library: title, task }: SecondOrder = JSON.parse(process.argv[2] ?? '{}')
const library = drainingLibraries(options).find((candidate) => titleOf(candidate) === title)
if (library === undefined) throw new Error(`there is no library ${title}`)

let jobs = 0
const drainer = await library.open(task, (more) => {
  jobs += more
})

function report(): void {
  const { user, system } = process.cpuUsage()
  process.send?.({ jobs, cpu: user + system } satisfies SecondReport)
  jobs = 0
}

process.on('message', () => {
  void drainer.start()
  setInterval(report, REPORT_EVERY_MS)
})
report()
