import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startEmbedded } from '@holdfast/embedded'
import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'

const built = (name: string) => fileURLToPath(new URL(`../../../examples/payments/dist/${name}.js`, import.meta.url))

/** A program as a user runs it, in a folder of its own; killed when the test ends, if it is still there. */
function start(name: string, args: string[], options: { cwd?: string; DATABASE_URL?: string } = {}) {
  const { DATABASE_URL: _, ...inherited } = process.env
  const { cwd = tmpdir(), ...environment } = options
  const child = spawn(process.execPath, [built(name), ...args], { cwd, env: { ...inherited, ...environment } })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data))
  const ended = once(child, 'exit').then(([code]) => code as number | null)
  onTestFinished(() => void child.kill('SIGKILL'))
  return { child, ended, output: () => output }
}
const demo = (args: string[], options?: Parameters<typeof start>[2]) =>
  start('demo/main', [...args, '--port', '0'], options)

/** Payments of the run that is ended in the middle. */
const RUN = 60
const SETTLED = new RegExp(`[1-9]\\d* of ${RUN} settled`)

test('A-06 the demo with chaos on a database of the user: all settled, the books balance, the exit code says so', async () => {
  const { connectionString: DATABASE_URL } = await testDatabase({ empty: true })
  const chaos = demo(['--payments', '40', '--once', '--chaos', '--seed', 'a test'], { DATABASE_URL })
  expect(await chaos.ended, chaos.output()).toBe(0)
  expect(chaos.output()).toMatch(/40 of 40 settled/)
  expect(chaos.output()).toMatch(/kill -9 of worker \d+/)
  // The quarter that is scheduled goes through the window, and `--once` waits until it is empty.
  expect(chaos.output()).toMatch(/window: 10 ready/)
  const [, completed, failed] =
    /window: 0 ready, 0 dispatched, (\d+) completed, (\d+) failed/.exec(chaos.output()) ?? []
  expect(Number(completed) + Number(failed)).toBe(10)
  expect(chaos.output()).toContain('The books balance')

  const books = start('books-command', [], { DATABASE_URL })
  expect(await books.ended, books.output()).toBe(0)
  expect(books.output()).toContain('The books balance')
}, 120_000)

test('A-06 the books command fails where money is missing', async () => {
  const { connectionString: DATABASE_URL } = await testDatabase({ empty: true })
  const nothing = start('books-command', [], { DATABASE_URL })
  expect(await nothing.ended).toBe(2)
  expect(nothing.output()).toContain('run `npm start` first')
  const once = demo(['--payments', '4', '--once'], { DATABASE_URL })
  expect(await once.ended, once.output()).toBe(0)
  const { default: pg } = await import('pg')
  const client = new pg.Client({ connectionString: DATABASE_URL })
  await client.connect()
  await client.query(
    `update payments.ledger_entry set amount = amount + 0.01 where id = (select min(id) from payments.ledger_entry)`,
  )
  await client.end()
  const books = start('books-command', [], { DATABASE_URL })
  expect(await books.ended).toBe(1)
  expect(books.output()).toContain('THE BOOKS DO NOT BALANCE')
}, 120_000)

test('K-11 the demo on the embedded PostgreSQL: Ctrl-C drains and stops everything, and the next start continues', async () => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'holdfast-payments-')))
  await writeFile(join(folder, 'package.json'), '{}')
  const first = demo(['--payments', String(RUN)], { cwd: folder })
  await waitFor('some are settled', () => SETTLED.test(first.output()), { timeout: 90_000 })
  first.child.kill('SIGINT')
  expect(await first.ended, first.output()).toBe(0)
  expect(first.output()).toContain('SIGINT: draining the workers')
  const [, open] = /(\d+) payments are open; the next start continues/.exec(first.output()) ?? []

  const second = demo(['--once'], { cwd: folder })
  expect(await second.ended, second.output()).toBe(0)
  if (open !== undefined)
    expect(second.output()).toContain(`${open} payments of an earlier run are open: they continue.`)
  expect(second.output()).toContain('The books balance')
  const server = await startEmbedded({ dataDir: join(folder, '.holdfast', 'postgres') })
  expect(server.reused).toBe(false)
  await server.stop({ force: true })
  await rm(folder, { recursive: true, force: true })
}, 200_000)

test('the demo prints its usage, and refuses unknown arguments', async () => {
  const help = demo(['--help'])
  expect(await help.ended).toBe(0)
  expect(help.output()).toContain('--chaos')
  const wrong = demo(['--payments', 'many'])
  expect(await wrong.ended).toBe(2)
  expect(wrong.output()).toContain('--payments must be a whole number')
})
