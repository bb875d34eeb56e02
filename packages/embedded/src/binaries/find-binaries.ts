import { resolve } from 'node:path'
import type { Account } from '../account.js'
import { EmbeddedPostgresError } from '../errors.js'
import type { Surroundings } from '../surroundings.js'
import { packageName, tryNpmPackage } from './npm-package.js'
import { type Binaries, tryPrograms } from './programs.js'

const OLDEST_MAJOR = 14

/** The PostgreSQL to run: the one named, else the npm package's, else the newest of the system. */
export async function findBinaries(
  binDir: string | undefined,
  account: Account | undefined,
  machine: Surroundings,
): Promise<Binaries> {
  const named = binDir ?? (machine.env.HOLDFAST_POSTGRES_BIN || undefined)
  if (named !== undefined) return namedBinaries(resolve(named), account)

  const fromNpm = await tryNpmPackage(machine, account)
  if (fromNpm !== undefined && 'binaries' in fromNpm) return fromNpm.binaries
  const fromSystem = await newestOfSystem(machine.systemFolders(), account)
  if (fromSystem !== undefined) return fromSystem
  throw unsupported(machine, fromNpm?.problem)
}

async function namedBinaries(binDir: string, account: Account | undefined): Promise<Binaries> {
  const trial = await tryPrograms(binDir, account)
  if ('binaries' in trial && trial.binaries.major >= OLDEST_MAJOR) return trial.binaries
  const problem = 'binaries' in trial ? `it is PostgreSQL ${trial.binaries.version}` : trial.problem
  throw new EmbeddedPostgresError(
    'HF_EMBEDDED_BINARIES_UNUSABLE',
    `The PostgreSQL in ${binDir}, named by the option binDir or by HOLDFAST_POSTGRES_BIN, cannot be used: ${problem}.`,
    `Name a folder with the programs postgres and initdb, version ${OLDEST_MAJOR} or newer, that ${account === undefined ? 'you' : `the user ${account.name}`} can run.`,
  )
}

async function newestOfSystem(folders: string[], account: Account | undefined): Promise<Binaries | undefined> {
  const trials = await Promise.all(folders.map((folder) => tryPrograms(folder, account)))
  return trials
    .flatMap((trial) => ('binaries' in trial && trial.binaries.major >= OLDEST_MAJOR ? [trial.binaries] : []))
    .sort((a, b) => b.major - a.major)[0]
}

function unsupported(machine: Surroundings, problem: string | undefined): EmbeddedPostgresError {
  const { platform, arch } = machine
  const why =
    problem === undefined
      ? `The npm package ${packageName(platform, arch)} is not installed or does not exist`
      : `The binaries of ${packageName(platform, arch)} do not run here (${problem})`
  return new EmbeddedPostgresError(
    'HF_EMBEDDED_UNSUPPORTED_PLATFORM',
    `There is no embedded PostgreSQL for ${platform}-${arch}. ${why}, and no PostgreSQL ${OLDEST_MAJOR} or newer was found on the system.`,
    'Set DATABASE_URL to a PostgreSQL of your own (postgres://user:password@host:5432/database), install PostgreSQL on this machine, or point HOLDFAST_POSTGRES_BIN at one. If you install packages with --omit=optional, leave that out.',
  )
}
