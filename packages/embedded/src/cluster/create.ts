import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, renameSync, rmdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Account } from '../account.js'
import type { Binaries } from '../binaries/programs.js'
import { EmbeddedPostgresError, systemErrorCode } from '../errors.js'
import { createFile, createFolder, type OpenFolder, openFolder, removeTree } from '../files-for-account.js'
import { runProgram } from '../program.js'
import { type ClusterRecord, writeRecord } from './record.js'

const MAKING = '.making-'
const DATA = 'data'
const PASSWORD = 'password'

/** The superuser and the database that every cluster of ours begins with. */
export const clusterUser = 'holdfast'
export const clusterDatabase = 'holdfast'

export interface ClusterPlan {
  readonly dataDir: string
  readonly binaries: Binaries
  readonly account: Account | undefined
  readonly ephemeral: boolean
}

/**
 * Makes a data directory beside its place and moves it there when it is complete. A kill on the way leaves a folder
 * `<dataDir>.making-…`; the name itself never holds half a cluster. That folder stays ours, so that the server's account
 * cannot put anything in the place of what we make for it.
 */
export async function createCluster(plan: ClusterPlan): Promise<ClusterRecord> {
  const workshop = mkdtempSync(`${plan.dataDir}${MAKING}`)
  try {
    const folder = openFolder(workshop, process.getuid?.())
    try {
      return await createIn(plan, workshop, folder)
    } finally {
      folder.close()
    }
  } finally {
    removeTree(workshop)
  }
}

async function createIn(plan: ClusterPlan, workshop: string, folder: OpenFolder): Promise<ClusterRecord> {
  // The account passes through to its own folder inside, without seeing or changing what else is here.
  if (plan.account !== undefined) folder.setMode(0o711)
  createFolder(folder, DATA, plan.account)
  const making = join(workshop, DATA)
  // Other users of this machine reach 127.0.0.1 too; only a password keeps them out.
  const record: ClusterRecord = { madeBy: '@holdfast/embedded', password: randomBytes(24).toString('base64url') }
  createFile(folder, PASSWORD, `${record.password}\n`, plan.account)
  await initialise(plan, making, join(workshop, PASSWORD))
  await createDatabase(plan, making)
  writeRecord(making, record, plan.account)
  moveIntoPlace(folder.at(DATA), plan.dataDir)
  return record
}

/** Folders of earlier attempts that were killed. They are named in a message, and never removed. */
export function leftovers(dataDir: string): string[] {
  const parent = dirname(dataDir)
  return readdirSync(parent)
    .filter((name) => name.startsWith(`${basename(dataDir)}${MAKING}`))
    .map((name) => join(parent, name))
}

async function initialise(plan: ClusterPlan, making: string, passwordFile: string): Promise<void> {
  const args = ['-D', making, '-U', clusterUser, '-A', 'scram-sha-256', '--pwfile', passwordFile]
  const sync = plan.ephemeral ? ['--no-sync'] : []
  const { initdb, major } = plan.binaries
  const result = await runProgram(initdb, [...args, ...localeArguments(major), ...sync], plan)
  if (result.code !== 0) throw failed(plan, `${initdb} ended with code ${result.code}`, result.output)
}

// Sorted by code point, so that neither the machine's locale nor an update of its libc changes an order or an index.
// From 17 on PostgreSQL brings that along with full Unicode upper and lower case.
function localeArguments(major: number): string[] {
  const builtin = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8']
  return ['-E', 'UTF8', '--no-locale', ...(major >= 17 ? builtin : [])]
}

// In single-user mode, because there is no driver here and the npm package brings no psql.
async function createDatabase(plan: ClusterPlan, making: string): Promise<void> {
  const { postgres } = plan.binaries
  const args = ['--single', '-D', making, ...(plan.ephemeral ? ['-F'] : []), 'postgres']
  const result = await runProgram(postgres, args, {
    account: plan.account,
    input: `create database ${clusterDatabase}\n`,
  })
  // It ends with code 0 also when the statement failed.
  if (result.code !== 0 || /\b(ERROR|FATAL|PANIC):/.test(result.output)) {
    throw failed(plan, `the database '${clusterDatabase}' could not be created`, result.output)
  }
}

function moveIntoPlace(making: string, dataDir: string): void {
  try {
    // An empty folder made by the user; a folder with anything in it is refused here by the system.
    rmdirSync(dataDir)
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'EBUSY') throw mountPoint(dataDir, error)
    if (code !== 'ENOENT') throw error
  }
  renameSync(making, dataDir)
}

function failed(plan: ClusterPlan, why: string, log: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_INITDB_FAILED',
    `A new data directory for ${plan.dataDir} could not be made: ${why}. Nothing is left of the attempt.`,
    'Its output below says why; most often the disk is full or read-only.',
    { log },
  )
}

function mountPoint(dataDir: string, cause: unknown): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_DATA_DIR_UNREACHABLE',
    `${dataDir} is a mount point; the data directory is made beside its place and moved there, which a mount point does not allow.`,
    'Name a folder inside the mounted one with the option dataDir.',
    { cause },
  )
}
