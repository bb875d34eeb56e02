import { clusterDatabase, clusterUser } from './cluster/create.js'
import { type ClusterRecord, writeRecord } from './cluster/record.js'
import { removeTree } from './files-for-account.js'
import { tryLock, withLock } from './lock.js'
import { type LaunchPlan, launch } from './postmaster/launch.js'
import { runningPostmaster } from './postmaster/pid-file.js'
import { killPostmaster, type StopMode, signalPostmaster, stopPostmaster } from './postmaster/stop.js'
import { ServerUsers } from './users.js'

/** The data of a server that was started or found. */
export interface ServerFacts {
  readonly plan: LaunchPlan
  readonly record: ClusterRecord
  readonly lockFile: string
  readonly pid: number
  readonly port: number
  readonly version: string
  readonly reused: boolean
  /** Set for an ephemeral server: the folder that is removed with it, and its watchdog. */
  readonly ephemeral?: { readonly folder: string; readonly release: () => void }
}

/** A running PostgreSQL server of ours. */
export class EmbeddedServer {
  /** Where the data really is (see the guide for the one case in which that is not below the project). */
  readonly dataDir: string
  readonly port: number
  /** The version of the server, for example '18.4'. */
  readonly version: string
  /** True when the server was found running, false when this call has started it. */
  readonly reused: boolean
  readonly ephemeral: boolean
  /** `postgres://holdfast:<password>@127.0.0.1:<port>/holdfast` */
  readonly connectionString: string
  readonly #facts: ServerFacts
  readonly #users: ServerUsers
  #pid: number
  #stopping: Promise<void> | undefined
  readonly #atExit = () => this.#leaveAtExit()

  /** @internal Use `startEmbedded`. */
  constructor(facts: ServerFacts) {
    this.#facts = facts
    this.#pid = facts.pid
    this.dataDir = facts.plan.dataDir
    this.port = facts.port
    this.version = facts.version
    this.reused = facts.reused
    this.ephemeral = facts.ephemeral !== undefined
    this.connectionString = `postgres://${clusterUser}:${facts.record.password}@127.0.0.1:${facts.port}/${clusterDatabase}`
    this.#users = new ServerUsers(this.dataDir)
    // An ephemeral server has one user, and the watchdog.
    if (!this.ephemeral) {
      this.#users.enter()
      process.on('exit', this.#atExit)
    }
  }

  /** The process id of the postmaster; another one after `restart()`. */
  get pid(): number {
    return this.#pid
  }

  /**
   * Says that this program needs the server no longer. The server stops, whether this program has started or found it,
   * unless another live program uses it too: then it keeps running. `force` stops it anyway, also after a
   * plain stop() that has left it running; other repeated calls do nothing.
   *
   * @example
   * const server = await startEmbedded()
   * try { await work(server.connectionString) } finally { await server.stop() }
   */
  async stop(options: { force?: boolean } = {}): Promise<void> {
    const force = options.force ?? false
    // A first stop() may have left the server to other programs; `force` then still stops it.
    if (force && !this.ephemeral) await this.#stopping
    if (this.#stopping === undefined || (force && !this.ephemeral)) this.#stopping = this.#stop(force)
    try {
      await this.#stopping
    } catch (error) {
      // So that it can be tried again.
      this.#stopping = undefined
      throw error
    }
  }

  /**
   * Stops the server and starts it on the same port and data, also after `kill()`. 'immediate' does not write anything
   * to disk first, as after a power cut; PostgreSQL recovers while it starts.
   */
  async restart(mode: StopMode = 'fast'): Promise<void> {
    await withLock(this.#facts.lockFile, async () => {
      await this.#stopServer(mode)
      const { plan, record } = this.#facts
      const launched = await launch({ ...plan, port: this.port })
      this.#pid = launched.pid
      const { version } = plan.binaries
      writeRecord(this.dataDir, { ...record, port: this.port, version, settings: plan.settings }, plan.account)
    })
  }

  /** Ends the postmaster with SIGKILL, for tests of what happens when PostgreSQL dies. `restart()` starts it again. */
  async kill(): Promise<void> {
    await withLock(this.#facts.lockFile, async () => {
      const running = runningPostmaster(this.dataDir)
      if (running !== undefined) await killPostmaster(running.pid, this.dataDir)
    })
  }

  async #stop(force: boolean): Promise<void> {
    await withLock(this.#facts.lockFile, async () => {
      const last = this.ephemeral || this.#users.leave()
      if (last || force) await this.#stopServer('fast')
    })
    process.off('exit', this.#atExit)
    this.#clearAway()
  }

  // By the pid file and not by our number: another program may have restarted the server that we share.
  async #stopServer(mode: StopMode): Promise<void> {
    const running = runningPostmaster(this.dataDir)
    if (running !== undefined) await stopPostmaster(running.pid, this.dataDir, mode)
  }

  #clearAway(): void {
    const { ephemeral } = this.#facts
    if (ephemeral === undefined) return
    removeTree(ephemeral.folder)
    ephemeral.release()
  }

  // The program ends without stop(). Only a signal can be sent here; the server writes everything to disk by itself. When
  // the lock is taken, another program is starting or stopping it, and it is left to that program.
  #leaveAtExit(): void {
    const unlock = tryLock(this.#facts.lockFile)
    if (unlock === undefined) return
    try {
      const running = this.#users.leave() ? runningPostmaster(this.dataDir) : undefined
      if (running !== undefined) signalPostmaster(running.pid, this.dataDir, 'SIGINT')
    } finally {
      unlock()
    }
  }
}
