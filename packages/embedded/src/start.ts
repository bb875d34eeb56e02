import { join, resolve } from 'node:path'
import { type Account, serverAccount } from './account.js'
import { findBinaries } from './binaries/find-binaries.js'
import type { Binaries } from './binaries/programs.js'
import { createCluster, leftovers } from './cluster/create.js'
import { type ClusterState, checkMajor, inspectCluster } from './cluster/inspect.js'
import { defaultLocation, ephemeralFolder, persistentLocation } from './cluster/location.js'
import { type ClusterRecord, writeRecord } from './cluster/record.js'
import { EmbeddedPostgresError } from './errors.js'
import { removeTree } from './files-for-account.js'
import { withLock } from './lock.js'
import { checkOptions, type EmbeddedOptions } from './options.js'
import { type LaunchPlan, launch, requireFree } from './postmaster/launch.js'
import { type PidFile, runningPostmaster } from './postmaster/pid-file.js'
import { isServerRunning } from './postmaster/probe.js'
import { EmbeddedServer, type ServerFacts } from './server.js'
import { differingSetting, effectiveSettings } from './settings.js'
import { type Surroundings, thisMachine } from './surroundings.js'
import { until } from './waiting.js'
import { startWatchdog } from './watchdog.js'

const READY_TIMEOUT_MS = 120_000

/**
 * Starts a real PostgreSQL server for development, a demo or tests, or finds the one that already runs on the same data.
 *
 * @example
 * const server = await startEmbedded({ ephemeral: true })
 * const pool = new pg.Pool({ connectionString: server.connectionString })
 * // …
 * await server.stop()
 */
export function startEmbedded(options: EmbeddedOptions = {}): Promise<EmbeddedServer> {
  return startOn(thisMachine, options)
}

/** `startEmbedded` on a machine that the caller describes. */
export async function startOn(machine: Surroundings, options: EmbeddedOptions): Promise<EmbeddedServer> {
  checkOptions(options)
  const settings = effectiveSettings(options.settings ?? {}, options.ephemeral ?? false)
  const wanted = options.ephemeral ? undefined : resolve(options.dataDir ?? defaultLocation())
  const dataDir = wanted && persistentLocation(wanted, serverAccount(wanted), machine.sharedFolder)
  const account = serverAccount(dataDir)
  const binaries = await findBinaries(options.binDir, account, machine)
  const start: Start = { options, settings, account, binaries, log: options.log ?? (() => undefined) }
  return dataDir === undefined ? startEphemeral(start) : startPersistent(start, dataDir)
}

interface Start {
  readonly options: EmbeddedOptions
  readonly settings: Record<string, string>
  readonly account: Account | undefined
  readonly binaries: Binaries
  readonly log: (line: string) => void
}

async function startEphemeral(start: Start): Promise<EmbeddedServer> {
  const folder = ephemeralFolder(start.account)
  const dataDir = join(folder, 'data')
  const release = startWatchdog(folder, dataDir)
  try {
    const facts = await startNew(start, dataDir, { kind: 'missing' })
    return new EmbeddedServer({ ...facts, ephemeral: { folder, release } })
  } catch (error) {
    removeTree(folder)
    release()
    throw error
  }
}

async function startPersistent(start: Start, dataDir: string): Promise<EmbeddedServer> {
  return withLock(lockFile(dataDir), async () => {
    const state = inspectCluster(dataDir)
    if (state.kind === 'ours') checkMajor(dataDir, state.major, start.binaries)
    const running = state.kind === 'ours' ? await findRunning(dataDir) : undefined
    const facts =
      running !== undefined && state.kind === 'ours'
        ? reuse(start, dataDir, state.record, running)
        : await startNew(start, dataDir, state)
    return new EmbeddedServer(facts)
  })
}

async function startNew(start: Start, dataDir: string, state: ClusterState): Promise<ServerFacts> {
  const { account, binaries, settings, options, log } = start
  const old = state.kind === 'ours' ? state.record : await createNew(start, dataDir)
  const plan: LaunchPlan = { dataDir, binaries, account, settings, port: options.port, likedPort: old.port }
  const { pid, port } = await launch(plan)
  if (old.port !== undefined && old.port !== port) log(`port ${old.port} is in use by another program, using ${port}`)
  const record = { ...old, port, version: binaries.version, settings }
  writeRecord(dataDir, record, account)
  log(`PostgreSQL ${binaries.version} runs on port ${port} (pid ${pid}), data in ${dataDir}`)
  return { plan, record, lockFile: lockFile(dataDir), pid, port, version: binaries.version, reused: false }
}

async function createNew(start: Start, dataDir: string): Promise<ClusterRecord> {
  const { account, binaries, options, log } = start
  // Before the data is created, which would be useless then.
  if (options.port !== undefined) await requireFree(options.port)
  for (const folder of leftovers(dataDir))
    log(`${folder} is left over from a start that was cut off; you may remove it`)
  log(`making a data directory for PostgreSQL ${binaries.version} in ${dataDir}`)
  return createCluster({ dataDir, binaries, account, ephemeral: options.ephemeral ?? false })
}

/** The server of ours that runs on the directory, once it is ready; one that is going down is waited for. */
async function findRunning(dataDir: string): Promise<PidFile | undefined> {
  const found = await until(READY_TIMEOUT_MS, async () => {
    const server = runningPostmaster(dataDir)
    if (server === undefined) return 'none'
    return server.status === 'ready' && (await isServerRunning(server.port)) ? server : undefined
  })
  if (found !== undefined) return found === 'none' ? undefined : found
  const pid = runningPostmaster(dataDir)?.pid
  throw new EmbeddedPostgresError(
    'HF_EMBEDDED_START_FAILED',
    `A server (pid ${pid ?? 'gone'}) runs on ${dataDir}, but has not become ready within ${READY_TIMEOUT_MS / 1000} s.`,
    `Read its log ${join(dataDir, 'holdfast.log')}; if it hangs, end it with kill -QUIT ${pid ?? '<pid>'} and start again.`,
  )
}

function reuse(start: Start, dataDir: string, record: ClusterRecord, running: PidFile): ServerFacts {
  const { account, binaries, options, log } = start
  const { pid, port } = running
  const settings = record.settings ?? start.settings
  if (options.port !== undefined && options.port !== port) {
    throw runningDifferently(running, dataDir, `on port ${port}, not ${options.port}`)
  }
  const differing = differingSetting(options.settings ?? {}, settings)
  if (differing !== undefined)
    throw runningDifferently(running, dataDir, `with another value of the setting '${differing}'`)
  log(`found the PostgreSQL that runs on port ${port} (pid ${pid}), data in ${dataDir}`)
  const plan: LaunchPlan = { dataDir, binaries, account, settings, port }
  return {
    plan,
    record,
    lockFile: lockFile(dataDir),
    pid,
    port,
    version: record.version ?? binaries.version,
    reused: true,
  }
}

function runningDifferently(running: PidFile, dataDir: string, how: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_RUNNING_DIFFERENTLY',
    `The server of ${dataDir} is already running (pid ${running.pid}) ${how}.`,
    'Call stop() in the program that uses it and start again, or leave the option out to use the server as it is.',
  )
}

function lockFile(dataDir: string): string {
  return `${dataDir}.lock`
}
