import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * The version of an installed package. Found by walking up from its entry point, since most packages do not export
 * their package.json.
 *
 * @example
 * versionOf('pg')   // '8.23.1'
 */
export function versionOf(name: string): string {
  for (
    let folder = dirname(fileURLToPath(import.meta.resolve(name)));
    folder !== dirname(folder);
    folder = dirname(folder)
  ) {
    const file = join(folder, 'package.json')
    if (!existsSync(file)) continue
    const found: { name?: string; version?: string } = JSON.parse(readFileSync(file, 'utf8'))
    if (found.name === name && found.version !== undefined) return found.version
  }
  throw new Error(`the package ${name} has no package.json with a version`)
}
