import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { malformed } from './malformed.js'
import { pinPlanner } from './planner.js'

/** `migrations/0007_name.sql`: applied once, in order of its number, never edited once landed. */
export interface MigrationFile {
  /** `0007_name` */
  readonly name: string
  readonly version: number
  /** The release of the library that brought it. */
  readonly release: number
  /** Its statements run one by one outside a transaction, because they build while others write. */
  readonly online: boolean
  readonly text: string
  readonly checksum: string
}

/** `functions/name.sql`: CREATE OR REPLACE, applied again whenever its revision was raised. */
export interface FunctionFile {
  readonly name: string
  readonly revision: number
  /** The function files that must be there before it. */
  readonly after: readonly string[]
  readonly text: string
  readonly checksum: string
}

export interface SqlFiles {
  readonly migrations: readonly MigrationFile[]
  readonly functions: readonly FunctionFile[]
  /** The highest release among the migrations: what this library is. */
  readonly release: number
}

/** Reads and checks the SQL files of a directory with the folders `migrations` and `functions`. */
export async function readSqlFiles(directory: string): Promise<SqlFiles> {
  const migrations = (await readFolder(join(directory, 'migrations'))).map(parseMigration)
  const functions = (await readFolder(join(directory, 'functions'))).map(parseFunctions)
  checkNumbers(migrations)
  return { migrations, functions: inOrder(functions), release: migrations.at(-1)?.release ?? 0 }
}

interface RawFile {
  readonly name: string
  readonly text: string
  readonly checksum: string
  readonly header: ReadonlyMap<string, string>
}

async function readFolder(folder: string): Promise<RawFile[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (file) => {
      // A checkout on Windows has other line ends; the file is the same.
      const text = (await readFile(join(folder, file), 'utf8')).replaceAll('\r\n', '\n')
      return { name: file.slice(0, -'.sql'.length), text, checksum: checksumOf(text), header: headerOf(text) }
    }),
  )
}

function checksumOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** The comment lines on top: `-- release: 1`, `-- online`. */
function headerOf(text: string): Map<string, string> {
  const header = new Map<string, string>()
  for (const line of text.split('\n')) {
    if (!line.startsWith('--')) break
    const [, key, value = ''] = /^--\s*(release|online|revision|after)\s*(?::\s*(.*?))?\s*$/.exec(line) ?? []
    if (key !== undefined) header.set(key, value)
  }
  return header
}

function parseMigration(file: RawFile): MigrationFile {
  const { name, text, checksum, header } = file
  const [, version] = /^(\d{4})_[a-z0-9_]+$/.exec(name) ?? []
  if (version === undefined) throw malformed(name, 'its name is not of the form 0001_lower_case.sql')
  const online = header.has('online')
  return { name, text, checksum, online, version: Number(version), release: numberIn(file, 'release') }
}

function parseFunctions(file: RawFile): FunctionFile {
  const { name, header } = file
  // The checksum is that of the text with its planner settings: a changed set raises the revisions of its files too.
  const text = pinPlanner(name, file.text)
  const after = (header.get('after') ?? '').split(/[\s,]+/).filter((other) => other !== '')
  return { name, text, checksum: checksumOf(text), after, revision: numberIn(file, 'revision') }
}

function numberIn({ name, header }: RawFile, key: string): number {
  const value = header.get(key)
  if (value === undefined || !/^[1-9]\d*$/.test(value))
    throw malformed(name, `it does not begin with a line \`-- ${key}: 1\``)
  return Number(value)
}

function checkNumbers(migrations: readonly MigrationFile[]): void {
  migrations.forEach(({ name, version, release, online }, index) => {
    const before = migrations[index - 1]
    if (before?.version === version) throw malformed(name, `it has the same number as ${before.name}`)
    if (version !== index + 1) throw malformed(name, `its number should be ${index + 1}: numbers have no gaps`)
    if (before && release < before.release) throw malformed(name, `its release is lower than that of ${before.name}`)
    // Online files run beside the transaction that holds the lock, so the tables of the runner must be there already.
    if (online && index === 0) throw malformed(name, 'the first file cannot be online')
  })
}

/** Function files in an order in which each comes after those it names; by name where that leaves a choice. */
function inOrder(files: readonly FunctionFile[]): FunctionFile[] {
  const byName = new Map(files.map((file) => [file.name, file]))
  const ordered = new Set<FunctionFile>()

  function visit(file: FunctionFile, path: readonly string[]): void {
    if (ordered.has(file)) return
    if (path.includes(file.name))
      throw malformed(file.name, `it comes after itself: ${[...path, file.name].join(', ')}`)
    for (const name of file.after) {
      const other = byName.get(name)
      if (!other) throw malformed(file.name, `it should come after ${name}.sql, which does not exist`)
      visit(other, [...path, file.name])
    }
    ordered.add(file)
  }

  for (const file of files) visit(file, [])
  return [...ordered]
}
