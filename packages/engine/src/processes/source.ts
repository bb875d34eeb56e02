import type { Executor } from '../kernel/database/executor.js'
import { lossesOf } from '../kernel/work/losses.js'
import type { LeaseRef, WorkSource } from '../kernel/work/source.js'
import type { ProcessDefinition } from './define.js'
import { type ClaimedProcess, claimProcesses } from './queries/claim-processes.js'

/** What a claim needs to know of a definition. */
type Claimable = Pick<ProcessDefinition, 'name' | 'version'> & { readonly concurrency?: number | undefined }

/** Processes as a source of work. A lane is a definition at one version: workers claim versions up to their own (P-18). */
export function processSource(db: Executor, definitions: () => readonly Claimable[]): WorkSource<ClaimedProcess> {
  const types = () =>
    definitions().flatMap(({ name, version }) =>
      Array.from({ length: version }, (_, before) => `${name}@${before + 1}`),
    )
  const laneOf = (lane: string) => {
    const at = lane.lastIndexOf('@')
    const type = lane.slice(0, at)
    const limit = definitions().find(({ name }) => name === type)?.concurrency ?? null
    return { type, version: Number(lane.slice(at + 1)), limit }
  }
  return {
    model: 'processes',
    types,
    claim: (request) => claimProcesses(db, laneOf, request),
    ...leasesOfProcesses(db),
    losses: lossesOf(db, {
      source: 'processes',
      async expire(leases) {
        await db.run(expireStatement, columns(leases))
      },
    }),
    async oldestDueSeconds() {
      const names = definitions().map(({ name }) => name)
      const [row] = await db.run<{ seconds: number | null }>(oldestStatement, [names])
      return row?.seconds ?? null
    },
  }
}

/** Keeping and giving back, for workers and for starters that execute themselves. */
function leasesOfProcesses(db: Executor): Pick<WorkSource<ClaimedProcess>, 'extend' | 'release'> {
  return {
    async extend(leases, leaseMs) {
      const [row] = await db.run<{ extended: string[]; lost: string[] }>(extendStatement, [...columns(leases), leaseMs])
      return row ?? { extended: [], lost: [] }
    },
    async release(leases) {
      await db.run(releaseStatement, columns(leases))
    },
  }
}

const columns = (leases: readonly LeaseRef[]) => [leases.map(({ id }) => id), leases.map(({ epoch }) => epoch)]

const extendStatement = {
  name: 'processes.extend',
  text: 'select * from holdfast.extend_processes($1::uuid[], $2::int[], $3)',
}
const releaseStatement = { name: 'processes.release', text: 'select holdfast.release_processes($1::uuid[], $2::int[])' }
const expireStatement = { name: 'processes.expire', text: 'select holdfast.expire_processes($1::uuid[], $2::int[])' }
const oldestStatement = {
  name: 'processes.oldest-due',
  text: `
    select extract(epoch from holdfast.now() - pg_catalog.min(oldest.due_at))::float8 as seconds
    from (select distinct name as type, version from holdfast.worker_definition where model = 'processes' and name = any ($1::text[]))
      as definition,
    -- Of each version by itself, as the index has it: the oldest of all versions at once would read the whole backlog.
    lateral (
      select due_at
      from holdfast.process
      where type = definition.type and version = definition.version and due_at <= holdfast.now()
      order by due_at
      limit 1
    ) oldest`,
}
