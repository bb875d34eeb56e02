import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** What the search for binaries needs to know of the machine; tests pass another one. */
export interface Surroundings {
  readonly platform: string
  readonly arch: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** The folder of root for files that the server's account must reach and cannot reach elsewhere. */
  readonly sharedFolder: string
  /** The folder of an installed npm package, wherever the package manager has put it. */
  packageFolder(name: string): string | undefined
  /** Folders where a PostgreSQL of the system may have its programs. */
  systemFolders(): string[]
}

export const thisMachine: Surroundings = {
  platform: process.platform,
  arch: process.arch,
  env: process.env,
  sharedFolder: '/var/lib/holdfast',
  packageFolder,
  systemFolders,
}

function packageFolder(name: string): string | undefined {
  try {
    // Its only export is dist/index.js, two levels below the folder.
    return dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch {
    // Not installed: the package manager leaves out optional packages made for other platforms.
    return undefined
  }
}

function systemFolders(): string[] {
  const versioned = [
    ...children('/usr/lib/postgresql', /^\d+$/),
    ...children('/usr', /^pgsql-\d+$/),
    ...children('/opt/homebrew/opt', /^postgresql(@\d+)?$/),
    ...children('/usr/local/opt', /^postgresql(@\d+)?$/),
  ]
  const configured = configuredFolder()
  return [...versioned.map((folder) => join(folder, 'bin')), ...(configured === undefined ? [] : [configured])]
}

function children(folder: string, pattern: RegExp): string[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter((name) => pattern.test(name))
    .map((name) => join(folder, name))
}

function configuredFolder(): string | undefined {
  try {
    return execFileSync('pg_config', ['--bindir'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    // No pg_config on the PATH, or one that does not work: there are other places to look.
    return undefined
  }
}
