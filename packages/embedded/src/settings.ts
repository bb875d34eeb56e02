import { EmbeddedPostgresError } from './errors.js'

/** Settings of postgresql.conf by name, handed to the server as `-c name=value`. */
export type ServerSettings = Record<string, string | number | boolean>

// Settings that the launcher depends on: it must know the port, and only this machine may connect.
const reserved = new Map([
  ['port', 'Pass the option `port` instead.'],
  [
    'listen_addresses',
    'The embedded server listens on 127.0.0.1 only; run a PostgreSQL of your own for anything else.',
  ],
  ['unix_socket_directories', 'The embedded server is reached over 127.0.0.1 only.'],
  ['data_directory', 'Pass the option `dataDir` instead.'],
  ['external_pid_file', 'The launcher finds its server by postmaster.pid in the data directory.'],
])

// An ephemeral data directory needs no durability; one that is kept has all of it.
const ephemeralDefaults: ServerSettings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: 200,
}

/** The effective settings: those of the caller win over the defaults of an ephemeral server. */
export function effectiveSettings(given: ServerSettings, ephemeral: boolean): Record<string, string> {
  const merged = { timezone: 'UTC', log_timezone: 'UTC', ...(ephemeral ? ephemeralDefaults : {}), ...checked(given) }
  return Object.fromEntries(Object.entries(merged).map(([name, value]) => [name, settingText(value)]))
}

/** The first setting that a running server was not started with, or undefined when all agree. */
export function differingSetting(given: ServerSettings, running: Record<string, string>): string | undefined {
  return Object.entries(checked(given)).find(([name, value]) => running[name] !== settingText(value))?.[0]
}

function settingText(value: string | number | boolean): string {
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  return String(value)
}

function checked(given: ServerSettings): ServerSettings {
  const entries = Object.entries(given).map(([name, value]) => [name.toLowerCase(), value] as const)
  for (const [name, value] of entries) checkSetting(name, value)
  return Object.fromEntries(entries)
}

function checkSetting(name: string, value: unknown): void {
  const instead = reserved.get(name)
  if (instead !== undefined) throw invalid(`The setting '${name}' belongs to the launcher.`, instead)
  if (!/^[a-z_][a-z0-9_.]*$/.test(name)) {
    throw invalid(`'${name}' is not the name of a PostgreSQL setting.`, 'Use names as in postgresql.conf.')
  }
  if (!['string', 'number', 'boolean'].includes(typeof value)) {
    throw invalid(`The setting '${name}' has a value of type ${typeof value}.`, 'Use a string, a number or a boolean.')
  }
}

function invalid(happened: string, next: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError('HF_EMBEDDED_INVALID_OPTION', happened, next)
}
