import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EmbeddedPostgresError, systemErrorCode } from '../errors.js'
import { readPidFile } from '../postmaster/pid-file.js'
import { isAlive } from '../process-table.js'
import { type ClusterRecord, readRecord, recordName } from './record.js'

export type ClusterState =
  | { readonly kind: 'missing' }
  | { readonly kind: 'ours'; readonly major: number; readonly record: ClusterRecord }

/** What a folder contains. Throws for a folder that this package did not create, or not completely, and changes nothing in it. */
export function inspectCluster(dataDir: string): ClusterState {
  const names = list(dataDir)
  if (names.length === 0) return { kind: 'missing' }
  if (!names.includes('PG_VERSION')) throw incomplete(dataDir, 'it is not empty, but has no file PG_VERSION')
  const record = readRecord(dataDir)
  if (record === undefined) throw foreign(dataDir)
  if (record === null) throw incomplete(dataDir, `its file ${recordName} cannot be read`)
  return { kind: 'ours', major: Number.parseInt(readFileSync(join(dataDir, 'PG_VERSION'), 'utf8'), 10), record }
}

/** A server reads the files of its own major version only. */
export function checkMajor(dataDir: string, major: number, binaries: { major: number; binDir: string }): void {
  if (major === binaries.major) return
  throw new EmbeddedPostgresError(
    'HF_EMBEDDED_VERSION_MISMATCH',
    `The data in ${dataDir} was made by PostgreSQL ${major}, and the PostgreSQL in ${binaries.binDir} is version ${binaries.major}.`,
    `Point HOLDFAST_POSTGRES_BIN at a PostgreSQL ${major} to go on using the data (and to dump it), or name another dataDir to begin a new one.`,
  )
}

function list(dataDir: string): string[] {
  try {
    return readdirSync(dataDir)
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'ENOENT') return []
    if (code === 'ENOTDIR') throw incomplete(dataDir, 'it is not a folder')
    if (code === 'EACCES') throw unreadable(dataDir, error)
    throw error
  }
}

function incomplete(dataDir: string, why: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_DATA_DIR_INCOMPLETE',
    `${dataDir} is not a complete data directory of PostgreSQL: ${why}. Nothing in it was changed.`,
    'If nothing in it is needed, remove it yourself and start again; otherwise name another folder with the option dataDir.',
  )
}

function foreign(dataDir: string): EmbeddedPostgresError {
  const server = readPidFile(dataDir)
  const running =
    server !== undefined && isAlive(server.pid)
      ? `, and a server runs on it (pid ${server.pid}, port ${server.port})`
      : ''
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_DATA_DIR_FOREIGN',
    `${dataDir} is a data directory of PostgreSQL that was not made by @holdfast/embedded (no ${recordName} in it)${running}. Nothing in it was changed.`,
    'Set DATABASE_URL to use that database, or name another folder with the option dataDir.',
  )
}

function unreadable(dataDir: string, cause: unknown): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_DATA_DIR_UNREACHABLE',
    `${dataDir} belongs to another user and cannot be read; probably the server was started as root or by another user before.`,
    'Start as that user, name another folder with the option dataDir, or remove it as that user if it is not needed.',
    { cause },
  )
}
