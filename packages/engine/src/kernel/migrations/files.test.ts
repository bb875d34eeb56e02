import { sqlFolder } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import { readSqlFiles } from './files.js'
import { SCHEMA_RELEASE } from './release.js'
import { sqlDirectory } from './sql-directory.js'

const folder = (files: Record<string, string>) => sqlFolder(files, onTestFinished)
const ONE = '-- release: 1\nselect 1;'

test('K-09 our own files are well formed and of the release that the library says', async () => {
  const { migrations, release } = await readSqlFiles(sqlDirectory())
  expect(migrations[0]?.name).toBe('0001_kernel')
  expect(release).toBe(SCHEMA_RELEASE)
})

test('K-09 headers are read, and line ends of Windows change nothing', async () => {
  const files = { 'migrations/0001_a.sql': ONE, 'migrations/0002_b.sql': '-- release: 2\n-- online\n-- why\nselect 2;' }
  const unix = await readSqlFiles(folder({ ...files, 'functions/f.sql': '-- revision: 7\nselect 3;' }))
  expect(unix.migrations).toMatchObject([
    { name: '0001_a', version: 1, release: 1, online: false },
    { name: '0002_b', version: 2, release: 2, online: true },
  ])
  expect(unix.functions).toMatchObject([{ name: 'f', revision: 7 }])
  expect(unix.release).toBe(2)
  const windows = await readSqlFiles(folder({ 'migrations/0001_a.sql': ONE.replaceAll('\n', '\r\n') }))
  expect(windows.migrations[0]?.checksum).toBe(unix.migrations[0]?.checksum)
})

test('K-09 function files come after those they name', async () => {
  const directory = folder({
    'functions/a.sql': '-- revision: 1\n-- after: kernel, b\n',
    'functions/b.sql': '-- revision: 1\n-- after: kernel\n',
    'functions/kernel.sql': '-- revision: 1\n',
  })
  expect((await readSqlFiles(directory)).functions.map(({ name }) => name)).toEqual(['kernel', 'b', 'a'])
})

test.each<[string, Record<string, string>, RegExp]>([
  ['a gap', { 'migrations/0001_a.sql': ONE, 'migrations/0003_b.sql': ONE }, /^0003_b\.sql .* should be 2/],
  [
    'a duplicate',
    { 'migrations/0001_a.sql': ONE, 'migrations/0001_b.sql': ONE },
    /^0001_b\.sql .* same number as 0001_a/,
  ],
  ['an odd name', { 'migrations/1-a.sql': ONE }, /^1-a\.sql .* 0001_lower_case\.sql/],
  ['no release', { 'migrations/0001_a.sql': 'select 1;' }, /`-- release: 1`/],
  ['no revision', { 'functions/a.sql': '-- revision: new\n' }, /`-- revision: 1`/],
  [
    'releases that fall',
    { 'migrations/0001_a.sql': '-- release: 2\n', 'migrations/0002_b.sql': ONE },
    /lower than that of 0001_a/,
  ],
  ['an online file first', { 'migrations/0001_a.sql': '-- release: 1\n-- online\n' }, /first file cannot be online/],
  ['an unknown predecessor', { 'functions/a.sql': '-- revision: 1\n-- after: b\n' }, /b\.sql, which does not exist/],
  [
    'a circle',
    { 'functions/a.sql': '-- revision: 1\n-- after: b\n', 'functions/b.sql': '-- revision: 1\n-- after: a\n' },
    /a, b, a/,
  ],
])('K-09 %s is refused', async (_, files, problem) => {
  await expect(readSqlFiles(folder(files))).rejects.toMatchObject({
    code: 'HF_MIGRATION_FAILED',
    message: expect.stringMatching(problem),
  })
})
