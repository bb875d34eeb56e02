import type { CommandClient, Outgoing } from '../commands/index.js'
import type { Codec } from '../kernel/codec/codec.js'
import { createBatcher, type Database, type Runtime } from '../kernel/model/index.js'
import type { DefinedProcess } from './define.js'
import type { ExecutionParts } from './execution/parts.js'
import { createLiveExecutions, type LiveExecutions } from './live.js'
import { type Incoming, type ProcessWrite, writeProcesses } from './queries/write-processes.js'
import { createProcessRegistries, type ManagerRegistry, type ProcessRegistry } from './registry.js'
import { createRemotes } from './remotes.js'
import { reportWrites } from './report.js'
import { createRespond, type Respond } from './respond.js'
import { createSettings, type SettingsCache } from './settings.js'

/** What all executions of this program share, in workers and in starters. */
export interface ProcessEngine {
  readonly codec: Codec
  readonly registry: ProcessRegistry
  readonly managers: ManagerRegistry
  register(definition: unknown): void
  readonly settings: SettingsCache
  readonly live: LiveExecutions
  readonly respond: Respond
  readonly writes: ExecutionParts['writes']
  partsFor(
    definition: DefinedProcess,
    by?: { readonly inStarter: boolean; readonly stop: AbortSignal },
  ): Promise<ExecutionParts>
  close(): Promise<void>
}

interface Options
  extends Pick<Runtime, 'codec' | 'logger' | 'metrics' | 'reports' | 'limiter' | 'abortGraceMs' | 'inquireForMs'> {
  readonly commands: CommandClient
  readonly outgoing: Outgoing
}

const LOOK_EVERY = 1_000

export function createProcessEngine(
  db: Database,
  { codec, commands, outgoing, limiter, abortGraceMs, inquireForMs, logger, metrics, reports }: Options,
): ProcessEngine {
  const registries = createProcessRegistries()
  const settings = createSettings(db)
  const live = createLiveExecutions(db, { pollMs: LOOK_EVERY, logger })
  const writes = createBatcher<ProcessWrite, Incoming | undefined>({
    name: 'processes.write',
    key: ({ id }) => id,
    async flush(batch) {
      const outcomes = await writeProcesses(db, batch)
      reportWrites(reports, batch, outcomes)
      return outcomes
    },
    logger,
    metrics,
  })
  const respond = createRespond(db, { codec, registry: registries.processes, logger, metrics })
  const remotes = createRemotes(db, { commands, outgoing, codec })
  const shared = { db, codec, writes, limiter, remotes, abortGraceMs, inquireForMs, logger, reports }
  return {
    codec,
    registry: registries.processes,
    managers: registries.managers,
    register: registries.add,
    settings,
    live,
    respond,
    writes,
    async partsFor(definition, by) {
      const own = await settings.of(definition.name)
      const stopSignal = by?.stop
      const stopping = () => stopSignal?.aborted === true
      return { ...shared, definition, settings: own, inStarter: by?.inStarter ?? true, stopping, stopSignal }
    },
    async close() {
      live.close()
      await Promise.all([respond.close(), writes.close(1_000)])
    },
  }
}
