import { EmbeddedPostgresError } from './errors.js'
import type { ServerSettings } from './settings.js'

export interface EmbeddedOptions {
  /** Where the data is kept. Default: `.holdfast/postgres` in the nearest folder with a package.json. */
  dataDir?: string | undefined
  /** The TCP port on 127.0.0.1. Default: the one used last time, else a free one. */
  port?: number | undefined
  /** A throw-away server for tests: a temporary folder, removed with the server, and no durability. */
  ephemeral?: boolean | undefined
  /** A folder with `postgres` and `initdb` to use instead of the npm binaries. Default: `HOLDFAST_POSTGRES_BIN`. */
  binDir?: string | undefined
  /** Settings as in postgresql.conf, for example `{ shared_preload_libraries: 'pg_stat_statements' }`. */
  settings?: ServerSettings | undefined
  /** Called with one line for each event: created, started, reused, another port taken. */
  log?: ((line: string) => void) | undefined
}

const known = {
  dataDir: 'string',
  port: 'number',
  ephemeral: 'boolean',
  binDir: 'string',
  settings: 'object',
  log: 'function',
} satisfies Record<keyof EmbeddedOptions, string>

/** Refuses invalid options, before anything is changed. */
export function checkOptions(options: EmbeddedOptions): void {
  for (const [name, value] of Object.entries(options)) checkType(name, value)
  const { port, dataDir, ephemeral } = options
  if (port !== undefined && (!Number.isInteger(port) || port < 1 || port > 65_535)) {
    throw invalid(`The option port is ${port}.`, 'Use a whole number from 1 to 65535, or leave it out for a free port.')
  }
  if (ephemeral && dataDir !== undefined) {
    throw invalid(
      `Both ephemeral and dataDir (${dataDir}) are given, but an ephemeral server's data is always removed.`,
      'Leave out one of the two.',
    )
  }
  if (dataDir === '') throw invalid('The option dataDir is empty.', 'Name a folder, or leave it out for the default.')
}

function checkType(name: string, value: unknown): void {
  const expected = new Map<string, string>(Object.entries(known)).get(name)
  if (expected === undefined) {
    throw invalid(`There is no option '${name}'.`, `The options are ${Object.keys(known).join(', ')}.`)
  }
  if (value !== undefined && (typeof value !== expected || value === null)) {
    throw invalid(
      `The option ${name} is ${value === null ? 'null' : `a ${typeof value}`}.`,
      `It must be a ${expected}.`,
    )
  }
}

function invalid(happened: string, next: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError('HF_EMBEDDED_INVALID_OPTION', happened, next)
}
