import { execFile } from 'node:child_process'
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

const inRepository = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))

test('C-01 the command of the README is the one that examples.matrix.test.ts runs', async () => {
  const readme = await readFile(inRepository('README.md'), 'utf8')
  const example = await readFile(inRepository('examples/basics/src/send-and-handle/main.ts'), 'utf8')
  expect(readme).toContain(`\`\`\`ts\n${example}\`\`\``)
  expect(readme).toContain('node examples/basics/dist/send-and-handle/main.js')
})

test('P-02 the first process of the README, saved and run as it says, continues where it stopped', async () => {
  const readme = await readFile(inRepository('README.md'), 'utf8')
  const [, code = ''] = /Save this as `mine\.mjs`[^\n]*\n\n```ts\n([\s\S]*?)```/.exec(readme) ?? []
  expect(code).toBe(await readFile(inRepository('examples/basics/src/five-minutes/main.ts'), 'utf8'))
  // In the checkout, where its imports are found; its data in a folder of its own.
  const mine = inRepository(`mine-${process.pid}.mjs`)
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'holdfast-readme-')))
  onTestFinished(async () => {
    await rm(mine, { force: true })
    await rm(folder, { recursive: true, force: true })
  })
  await writeFile(mine, code)
  await writeFile(join(folder, 'package.json'), '{}')
  const run = async (...args: string[]) => {
    const { stdout } = await promisify(execFile)(process.execPath, [mine, ...args], { cwd: folder, timeout: 60_000 })
    return stdout.trim().split('\n')
  }
  const waits = expect.stringMatching(/waits for .*approval/)
  expect(await run()).toEqual(['booking the risk', waits])
  expect(await run()).toEqual([waits])
  expect(await run('ann')).toEqual([
    waits,
    expect.stringMatching(/^settled, booked as RISK-PAY-1-.{4}, approved by ann$/),
  ])
}, 120_000)
