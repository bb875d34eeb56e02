import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const inRepository = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))

test('K-12 the first example of the README is the one that runs, and does what it says', async () => {
  const readme = await readFile(inRepository('README.md'), 'utf8')
  const example = await readFile(inRepository('examples/basics/src/first-steps/main.ts'), 'utf8')
  expect(readme).toContain(`\`\`\`ts\n${example}\`\`\``)
  const main = inRepository('examples/basics/dist/first-steps/main.js')
  const { stdout } = await promisify(execFile)(process.execPath, [main])
  expect(stdout).toBe(
    'worker running on schema holdfast\nPAUSED by ann: the bank is down\nRESUMED by bob: the bank is back\n',
  )
})
