import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const inRepository = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))

test('C-01 the first example of the README is the one that examples.test.ts runs', async () => {
  const readme = await readFile(inRepository('README.md'), 'utf8')
  const example = await readFile(inRepository('examples/basics/src/send-and-handle/main.ts'), 'utf8')
  expect(readme).toContain(`\`\`\`ts\n${example}\`\`\``)
  expect(readme).toContain('node examples/basics/dist/send-and-handle/main.js')
})
