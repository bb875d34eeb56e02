import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import type { Account } from '../account.js'
import { systemErrorCode } from '../errors.js'
import { createFile, withFolder } from '../files-for-account.js'

/**
 * Our file in a data directory: it marks the directory as made by us, and keeps what the next start needs. It holds the
 * password, so it lies inside the directory that only the server's account may enter, readable by its owner alone.
 */
export interface ClusterRecord {
  readonly madeBy: '@holdfast/embedded'
  readonly password: string
  readonly port?: number
  /** The version and settings of the latest start: what a server that is found running was started with. */
  readonly version?: string
  readonly settings?: Record<string, string>
}

export const recordName = 'holdfast.json'

/** Undefined: there is no record. Null: there is one that cannot be read. */
export function readRecord(dataDir: string): ClusterRecord | null | undefined {
  let text: string
  try {
    text = readFileSync(join(dataDir, recordName), 'utf8')
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : null
  } catch {
    return null
  }
}

/** Replaces the record in one step, so that a kill leaves the old one or the new one. */
export function writeRecord(dataDir: string, record: ClusterRecord, account: Account | undefined): void {
  const draft = `${recordName}.${randomBytes(8).toString('hex')}`
  withFolder(dataDir, account?.uid, (folder) => {
    createFile(folder, draft, `${JSON.stringify(record, null, 2)}\n`, account)
    renameSync(folder.at(draft), folder.at(recordName))
  })
}

function isRecord(value: unknown): value is ClusterRecord {
  if (typeof value !== 'object' || value === null || !('madeBy' in value) || !('password' in value)) return false
  return value.madeBy === '@holdfast/embedded' && typeof value.password === 'string'
}
