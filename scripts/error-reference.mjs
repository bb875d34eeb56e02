// Writes docs/reference/errors.md from the registry of errors; with --check only says whether it is up to date.
import { readFile, writeFile } from 'node:fs/promises'
import { errorRegistry } from '../packages/engine/dist/kernel/errors.js'
import { renderErrorReference } from '../packages/testing/dist/docs/errors-reference.js'

const page = new URL('../docs/reference/errors.md', import.meta.url)
const rendered = renderErrorReference(errorRegistry)

if (process.argv.includes('--check')) {
  const written = await readFile(page, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  if (written !== rendered) {
    console.error('docs/reference/errors.md is not what the registry says: run `node scripts/error-reference.mjs`')
    process.exitCode = 1
  }
} else {
  await writeFile(page, rendered)
}
