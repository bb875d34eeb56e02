import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { removeTree } from './files-for-account.js'
import { isAlive, startTime } from './process-table.js'

let handles = 0

/**
 * The users of a server that is kept: one file per handle, named by process. So the first of two programs that share a
 * server can end without stopping the database of the other.
 */
export class ServerUsers {
  readonly #folder: string
  readonly #own: string

  constructor(dataDir: string) {
    this.#folder = `${dataDir}.users`
    this.#own = `${process.pid}.${startTime(process.pid) ?? ''}.${++handles}`
  }

  enter(): void {
    mkdirSync(this.#folder, { recursive: true })
    // Exclusively: root may be in a folder of another user, who must not make it change a file of root through a link.
    writeFileSync(join(this.#folder, this.#own), '', { flag: 'wx' })
  }

  /** Removes this handle from the list; true if the list is empty then. */
  leave(): boolean {
    rmSync(join(this.#folder, this.#own), { force: true })
    const others = this.#names()
    const dead = others.filter((name) => !isLivingUser(name))
    if (dead.length < others.length) return false
    removeTree(this.#folder)
    return true
  }

  #names(): string[] {
    mkdirSync(this.#folder, { recursive: true })
    return readdirSync(this.#folder)
  }
}

function isLivingUser(name: string): boolean {
  const [pid, started] = name.split('.')
  return isAlive(Number(pid)) && (!started || startTime(Number(pid)) === started)
}
