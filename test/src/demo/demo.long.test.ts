import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startEmbedded } from '@holdfast/embedded'
import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'

const main = fileURLToPath(new URL('../../../examples/basics/dist/durable-job/main.js', import.meta.url))

/** The demo as a user runs it, in a folder of its own. */
function startDemo(cwd: string, environment: Record<string, string | undefined>) {
  const { DATABASE_URL: _, ...inherited } = process.env
  const child = spawn(process.execPath, [main], { cwd, env: { ...inherited, ...environment } })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data))
  const ended = once(child, 'exit').then(([code]) => code as number | null)
  return { child, ended, output: () => output }
}

test('K-03 the demo on a database of the user: a killed worker, every invoice paid once', async () => {
  const { connectionString } = await testDatabase({ empty: true })
  for (const run of [1, 2]) {
    const demo = startDemo(tmpdir(), { DATABASE_URL: connectionString })
    expect(await demo.ended, demo.output()).toBe(0)
    expect(demo.output()).toContain(`it holds ${(run - 1) * 12} paid invoices of earlier runs`)
    expect(demo.output()).toContain('kill -9 of worker A')
    expect(demo.output()).toContain('(attempt 2, with the same idempotency key)')
    expect(demo.output()).toMatch(/Done: 12 invoices paid, 12 payments booked by the bank, \d+ calls made/)
  }
})

test('K-11 the demo on the embedded PostgreSQL goes on after its own kill -9', async () => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'holdfast-demo-')))
  await writeFile(join(folder, 'package.json'), '{}')
  const killed = startDemo(folder, {})
  await waitFor('it has paid some', () => killed.output().includes('paid by A'), { timeout: 60_000 })
  killed.child.kill('SIGKILL')
  await killed.ended
  const again = startDemo(folder, {})
  expect(await again.ended, again.output()).toBe(0)
  expect(again.output()).toMatch(/\d+ invoices were left open by a run that was killed/)
  expect(again.output()).toMatch(/Done: \d+ invoices paid/)
  const server = await startEmbedded({ dataDir: join(folder, '.holdfast', 'postgres') })
  await server.stop({ force: true })
  await rm(folder, { recursive: true, force: true })
}, 120_000)
