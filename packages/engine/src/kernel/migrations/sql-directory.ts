import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * The folder `sql/` of this package. Looked for upwards rather than counted in `..`: the same module runs from `src/`,
 * from `dist/`, and from whatever a bundler of ours makes of it.
 */
export function sqlDirectory(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'sql', 'migrations'))) {
    const parent = dirname(folder)
    if (parent === folder)
      throw new Error(`the folder sql/ of holdfast is missing above ${fileURLToPath(import.meta.url)}`)
    folder = parent
  }
  return join(folder, 'sql')
}
