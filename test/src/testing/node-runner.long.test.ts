import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const files = ['first', 'second'].map((name) =>
  fileURLToPath(new URL(`../../dist/testing/node-runner/${name}.js`, import.meta.url)),
)

const withServer = fileURLToPath(new URL('../../../packages/testing/dist/server/with-server.js', import.meta.url))

/** Runs node as a user does who knows nothing of the run that this test belongs to. */
async function node(...args: string[]): Promise<{ readonly output: string; readonly servers: ReadonlySet<string> }> {
  const { HOLDFAST_TEST_SERVER: _server, HOLDFAST_TEST_PREFIX: _prefix, NODE_OPTIONS: _options, ...env } = process.env
  const cwd = fileURLToPath(new URL('../../', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, args, { env, cwd, timeout: 100_000 })
  return { output: stdout, servers: new Set([...stdout.matchAll(/server (\d+)/g)].map(([, port = '']) => port)) }
}

test('X-01 under node:test without any set-up, a process starts its own PostgreSQL and ends with it', async () => {
  const { output, servers } = await node('--test', ...files.slice(0, 1))
  expect(output).toMatch(/# pass 1\n/)
  expect(servers.size).toBe(1)
}, 120_000)

test('X-01 under node:test with holdfast-with-server, all files share one PostgreSQL', async () => {
  const { output, servers } = await node(withServer, process.execPath, '--test', ...files)
  expect(output).toMatch(/# pass 2\n/)
  expect(servers.size).toBe(1)
}, 120_000)

test('X-01 holdfast-with-server ends with the exit code of its command, and prints its usage', async () => {
  await expect(node(withServer, process.execPath, '-e', 'process.exit(7)')).rejects.toMatchObject({ code: 7 })
  await expect(node(withServer)).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('usage') })
}, 120_000)
