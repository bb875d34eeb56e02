import { type Executor, leasesOfTable, lossesOf, type WorkSource } from '../kernel/model/index.js'
import type { DefinedProcess } from './define.js'
import { type ClaimedProcess, claimProcesses } from './queries/claim-processes.js'

/** What a claim needs to know of a definition. */
type Claimable = Pick<DefinedProcess, 'name' | 'version'> & { readonly concurrency?: number | undefined }

/** Processes as a source of work. A lane is a definition at one version: workers claim versions up to their own. */
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
  const { expire, ...leases } = leasesOfTable(db, {
    model: 'processes',
    name: 'processes',
    key: 'uuid',
    lanes: () => definitions().map(({ name }) => name),
  })
  return {
    model: 'processes',
    types,
    claim: (request) => claimProcesses(db, laneOf, request),
    ...leases,
    losses: lossesOf(db, { source: 'processes', expire }),
  }
}
