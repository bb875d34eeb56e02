import { setMaxListeners } from 'node:events'
import {
  createLeases,
  createSignal,
  type Database,
  type Gate,
  type Logger,
  type Metrics,
  startHeartbeat,
} from '../kernel/model/index.js'
import type { DefinedProcess } from './define.js'
import type { Lending } from './encode-start.js'
import type { ExecutionParts } from './execution/parts.js'
import { runProcess } from './executor.js'
import type { LiveExecutions } from './live.js'
import type { ClaimedProcess } from './queries/claim-processes.js'
import type { EncodedStart, StartAnswer } from './queries/start-processes.js'
import type { SettingsCache } from './settings.js'
import { processSource } from './source.js'
import type { ProcessStatus } from './states.js'

const LEASE = 30_000

/** Processes that run in the program that starts them: leased from their first moment, with a heartbeat of their own. */
export interface StarterExecutions {
  /** Whether `start` may run it in this program. A definition with a limit across all workers is always left to them. */
  allowed(definition: DefinedProcess): Promise<boolean>
  lending(definition: DefinedProcess): Lending
  run(
    definition: DefinedProcess,
    encoded: EncodedStart & { readonly state: { readonly json: string; readonly notes: object | null } },
    answer: Pick<StartAnswer, 'id' | 'now' | 'deadline'> & { readonly sentAt: number },
  ): Promise<ProcessStatus>
  /** Lets running processes come to their next suspension, for at most this long; nothing more begins. */
  readonly drain: (longestMs: number) => Promise<void>
  close(): Promise<void>
}

interface Options {
  readonly name: string
  /** Whether this program is one that runs the definition at all. */
  readonly isAllowed: (definition: DefinedProcess) => boolean
  readonly settings: SettingsCache
  readonly live: LiveExecutions
  readonly gate: Gate
  readonly partsFor: (definition: DefinedProcess, stop: AbortSignal) => Promise<ExecutionParts>
  readonly logger: Logger
  readonly metrics: Metrics
}

export function createStarterExecutions(db: Database, options: Options): StarterExecutions {
  const { name, isAllowed, settings, live, gate, partsFor, logger, metrics } = options
  const source = processSource(db.reserved, () => [])
  const leases = createLeases<ClaimedProcess>({ source, leaseMs: LEASE, logger, metrics })
  const stop = new AbortController()
  // As many listen as steps wait for a slot.
  setMaxListeners(0, stop.signal)
  const oneEnded = createSignal()
  let running = 0
  let heartbeat: { stop(): void } | undefined

  return {
    async allowed(definition) {
      // If nothing may begin in this program for a while, a worker of another program runs it sooner (K-26).
      if (!isAllowed(definition) || definition.concurrency !== undefined || gate.isClosedForLong) return false
      return (await settings.of(definition.name)).concurrency === undefined
    },
    lending: () => ({ worker: name, leaseMs: LEASE }),
    async run(definition, { state, key }, { id, now, deadline, sentAt }) {
      heartbeat ??= startHeartbeat({
        everyMs: LEASE / 3,
        beat: () => leases.beat(),
        failed: () => undefined,
        logger,
      })
      running += 1
      const item = firstClaim(definition, { id, key: key ?? null, now, deadline, state })
      const lease = leases.take(item, sentAt)
      // Not beside an item of this process that is to run alone (K-26).
      const leave = gate.isOpen ? gate.enter() : await gate.entered()
      try {
        const rest = await runProcess(item, lease, await partsFor(definition, stop.signal), live)
        return rest?.status ?? 'EXECUTING'
      } catch (error) {
        // The process is in the database, and a worker continues it when the lease ends.
        logger.error(
          { err: error, id, type: definition.name },
          'an execution failed outside user code; its lease will end',
        )
        return 'EXECUTING'
      } finally {
        leave()
        leases.drop(lease)
        running -= 1
        oneEnded.fire()
      }
    },
    async drain(longestMs) {
      stop.abort()
      const deadline = performance.now() + longestMs
      while (running > 0 && performance.now() < deadline) await oneEnded.wait(deadline - performance.now())
    },
    async close() {
      heartbeat?.stop()
      const held = leases.refs()
      leases.abortAll(new Error('closed'))
      // Stopped in order: not a crash, and what their calls did is unknown.
      if (held.length > 0) {
        await source.losses?.interrupted(held).catch((error: unknown) => {
          logger.warn({ err: error, items: held.length }, 'could not record that executions were interrupted')
        })
      }
    },
  }
}

/** What a claim would have returned for a process that was created a moment ago. */
function firstClaim(
  definition: DefinedProcess,
  {
    id,
    key,
    now,
    deadline,
    state,
  }: {
    readonly id: string
    readonly key: string | null
    readonly now: number
    readonly deadline: number | null
    readonly state: { readonly json: string; readonly notes: object | null }
  },
): ClaimedProcess {
  return {
    id,
    key,
    type: definition.name,
    version: definition.version,
    epoch: 1,
    status: 'PENDING',
    restedEpoch: 0,
    generation: 1,
    cancel: null,
    limited: false,
    now,
    deadline,
    mismatchSince: null,
    startAt: now,
    createdAt: now,
    state: JSON.parse(state.json),
    stateNotes: state.notes as ClaimedProcess['stateNotes'],
    stateResponses: 0,
    stateUnmet: null,
    stateEvents: null,
    stateChecked: true,
    history: [],
    historyLength: null,
    responseCount: 0,
    responses: [],
  }
}
