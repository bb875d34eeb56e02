import { expect, test } from 'vitest'
import type { FunctionFile, MigrationFile, SqlFiles } from './files.js'
import { planMigration } from './plan.js'
import type { SchemaState } from './state.js'

const migration = (version: number, release: number, checksum = 'c'): MigrationFile => ({
  name: `m${version}`,
  version,
  release,
  checksum,
  online: false,
  text: '',
})
const functions = (revision: number, checksum = `r${revision}`): FunctionFile => ({
  name: 'kernel',
  revision,
  checksum,
  after: [],
  text: '',
})

function filesOf(migrations: MigrationFile[], file: FunctionFile): SqlFiles {
  return { migrations, functions: [file], release: migrations.at(-1)?.release ?? 0 }
}

function stateOf(migrations: MigrationFile[], file?: FunctionFile): SchemaState {
  return {
    migrations: new Map(migrations.map((applied) => [applied.version, applied])),
    functions: new Map(file ? [[file.name, file]] : []),
    release: Math.max(0, ...migrations.map(({ release }) => release)),
  }
}

const names = ({
  migrations,
  functions: files,
}: {
  migrations: readonly MigrationFile[]
  functions: readonly FunctionFile[]
}) => [...migrations.map(({ name }) => name), ...files.map(({ name, revision }) => `${name} ${revision}`)]

const ours = filesOf([migration(1, 1), migration(2, 2)], functions(3))

test.each<[string, SchemaState, string[]]>([
  ['an empty schema lacks everything', stateOf([]), ['m1', 'm2', 'kernel 3']],
  ['an older schema lacks the rest', stateOf([migration(1, 1)], functions(2)), ['m2', 'kernel 3']],
  ['a current schema lacks nothing', stateOf([migration(1, 1), migration(2, 2)], functions(3)), []],
  [
    'release N runs on the schema of N + 1 and leaves its newer functions alone',
    stateOf([migration(1, 1), migration(2, 2), migration(3, 3)], functions(4)),
    [],
  ],
])('K-09 %s', (_, state, expected) => {
  expect(names(planMigration(ours, state, 's'))).toEqual(expected)
})

test('K-09 beyond N + 1 an older library refuses and says what to do', () => {
  const state = stateOf([migration(1, 1), migration(2, 2), migration(3, 4)], functions(5))
  expect(() => planMigration(ours, state, 'pay')).toThrow(
    expect.objectContaining({
      code: 'HF_SCHEMA_TOO_NEW',
      message: expect.stringMatching(/"pay" is of release 4.* release 2 .*up to 3/),
      next: expect.stringContaining('Upgrade the holdfast package'),
    }),
  )
})

test.each<[string, SchemaState]>([
  ['a migration that was edited after it was applied', stateOf([migration(1, 1, 'other')])],
  ['functions that were changed under the same revision', stateOf([migration(1, 1)], functions(3, 'other'))],
])('K-09 %s is refused', (_, state) => {
  expect(() => planMigration(ours, state, 's')).toThrow(expect.objectContaining({ code: 'HF_MIGRATION_CHANGED' }))
})
