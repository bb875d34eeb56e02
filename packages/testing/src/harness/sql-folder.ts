import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A folder of SQL files for the migration runner. `atEnd` is told how to remove it (vitest's `onTestFinished`).
 *
 * @example
 * const files = { 'migrations/0001_first.sql': '-- release: 1\ncreate table holdfast.item (id int);' }
 * const directory = sqlFolder(files, onTestFinished)
 */
export function sqlFolder(files: Readonly<Record<string, string>>, atEnd: (remove: () => void) => void): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-sql-'))
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  for (const kind of ['migrations', 'functions']) mkdirSync(join(folder, kind))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}
