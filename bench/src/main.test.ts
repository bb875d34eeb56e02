import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { connectionStringOf, waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'

// The build, as `npm run bench` runs it.
const program = fileURLToPath(new URL('../dist/main.js', import.meta.url))

function start(args: string[], env: NodeJS.ProcessEnv = {}) {
  // On a server of its own: that of the tests may have fsync off.
  const { DATABASE_URL: _unwanted, ...inherited } = process.env
  const child = spawn(process.execPath, [program, ...args], { env: { ...inherited, ...env } })
  const stdout = text(child.stdout)
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    said += chunk
  })
  const ended = once(child, 'close').then(async ([code]) => ({ code, stdout: await stdout, stderr: said }))
  return { child, ended, said: () => said }
}

const cost = expect.any(Number)
const costs = {
  wal_bytes_per_item: cost,
  statements_per_item: cost,
  node_cpu_us_per_item: cost,
  // Where there is no /proc, this cannot be known.
  postgres_cpu_us_per_item: process.platform === 'linux' ? cost : null,
  peak_rss_mb: cost,
  yardstick_commits_per_s: cost,
}

test('a small run prints one JSON line per result on standard output, and its progress elsewhere', {
  timeout: 120_000,
}, async () => {
  const systems = ['--system', 'connections 1', '--system', 'concurrency 500']
  const { code, stdout, stderr } = await start(['loop', '--items', '2000', '--rounds', '2', '--json', ...systems]).ended
  expect(stderr).toContain('round 2/2')
  expect(code).toBe(0)
  const results = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(results.map(({ system, config }) => ({ system, ...config }))).toEqual([
    { system: 'hand-batched SQL', connections: 1, batch: cost },
    { system: 'holdfast loop', concurrency: 500 },
  ])
  for (const result of results) {
    expect(result).toEqual({
      workload: 'loop',
      system: expect.any(String),
      role: expect.stringMatching(/^(ceiling|holdfast)$/),
      version: expect.stringMatching(/\d+\.\d+\.\d+$/),
      config: expect.any(Object),
      value: expect.any(Number),
      unit: 'items/s',
      better: 'higher',
      ratio_to_best_peer: expect.any(Number),
      compared_with: expect.stringMatching(/^hand-batched SQL \(connections/),
      ...costs,
      rounds: [
        { value: expect.any(Number), ...costs },
        { value: expect.any(Number), ...costs },
      ],
      postgres: expect.any(String),
    })
    // Every item is claimed and completed, and each leaves an audit row: less than this much WAL cannot hold that.
    expect(result.wal_bytes_per_item).toBeGreaterThan(100)
    // Two statements for a batch of items: one per item would be no batching.
    expect(result.statements_per_item).toBeGreaterThan(0)
    expect(result.statements_per_item).toBeLessThan(1)
    expect(result.value).toBeGreaterThan(0)
  }
  // The best ceiling is what everybody is compared with.
  expect(Math.max(...results.filter(({ role }) => role === 'ceiling').map((result) => result.ratio_to_best_peer))).toBe(
    1,
  )
})

// Of each a system of ours and one of another's: what all of them do is the business of a real run.
test.each([
  {
    workload: 'commands-drain',
    items: 300,
    of: ['holdfast (concurrency 500, processes 2', 'graphile-worker batched (jobs 24, localQueue 500, processes 2'],
    results: 2,
    details: {},
  },
  { workload: 'commands-send', items: 2000, of: ['holdfast (way 50', 'pg-boss (way 50'], results: 2, details: {} },
  {
    workload: 'commands-latency',
    items: 5,
    of: ['holdfast', 'pg-boss'],
    results: 2,
    details: { p95: cost, p99: cost },
  },
  {
    workload: 'commands-backlog',
    items: 1000,
    of: ['holdfast receive (backlog a fifth', 'pg-boss fetch (backlog a fifth'],
    results: 2,
    details: { p95: cost },
  },
  { workload: 'limiter', items: 2000, of: ['callers 50,', 'callers 50)'], results: 2, details: {} },
  { workload: 'limiter-rate', items: 800, of: ['burst 50'], results: 2, details: { 'most in 1 s': cost } },
  { workload: 'process-steps', items: 50, of: ['concurrency 100,'], results: 1, details: {} },
  { workload: 'process-latency', items: 5, of: ['DBOS'], results: 1, details: { p95: cost, step: cost } },
  { workload: 'process-waits', items: 50, of: ['openwo'], results: 1, details: {} },
  { workload: 'process-history', items: 100, of: ['DBOS'], results: 1, details: { start: cost, growth: cost } },
  {
    workload: 'workflow-chain',
    items: 50,
    of: ['concurrency 100,', 'workflows (concurrency 200'],
    results: 2,
    details: {},
  },
])('$workload runs ours and the peers', { timeout: 120_000 }, async ({ workload, items, of, results, details }) => {
  const systems = of.flatMap((name) => ['--system', name])
  const args = [workload, '--items', String(items), '--rounds', '1', '--json', ...systems]
  const { code, stdout, stderr } = await start(args).ended
  expect(stderr).toContain('round 1/1')
  expect(code).toBe(0)
  const found = stdout
    .trim()
    .split('\n')
    .map((result) => JSON.parse(result))
  expect(found).toHaveLength(results)
  expect(new Set(found.map(({ role }) => role))).toContain('peer')
  for (const result of found) expect(result).toMatchObject({ value: cost, ...details })
})

test.each([
  { workload: 'workflow-fork', items: 50, of: ['workflows (concurrency 200'], results: 1 },
  { workload: 'workflow-backlog', items: 3000, of: ['waiting all'], results: 1 },
  { workload: 'dispatch-million', items: 500, of: ['release (batch 500)'], results: 1 },
])('$workload runs ours alone', { timeout: 120_000 }, async ({ workload, items, of, results }) => {
  const systems = of.flatMap((name) => ['--system', name])
  const { code, stdout } = await start([workload, '--items', String(items), '--rounds', '1', '--json', ...systems])
    .ended
  expect(code).toBe(0)
  const found = stdout
    .trim()
    .split('\n')
    .map((result) => JSON.parse(result))
  expect(found).toHaveLength(results)
  for (const result of found) expect(result).toMatchObject({ role: 'holdfast', value: cost })
})

test.each([
  { args: ['nothing'], says: "There is no workload 'nothing'. The workloads are: loop," },
  { args: ['loop', '--fast'], says: "Unknown option '--fast'. The options are --rounds" },
])('$args ends with exit code 2 and says what there is', async ({ args, says }) => {
  const { code, stdout, stderr } = await start(args).ended
  expect(stderr).toContain(says)
  expect(stdout).toBe('')
  expect(code).toBe(2)
})

test('--list names every workload with its systems', async () => {
  const { code, stdout } = await start(['--list']).ended
  expect(stdout).toMatch(/^loop: .*\n {4}hand-batched SQL \(connections 1/)
  expect(code).toBe(0)
})

test('a server that may lose what it has committed is refused', async () => {
  const url = new URL(connectionStringOf('postgres'))
  url.searchParams.set('options', '-c synchronous_commit=off')
  const { code, stdout, stderr } = await start(['loop', '--items', '10'], { DATABASE_URL: url.href }).ended
  expect(stderr).toMatch(/runs with (fsync|synchronous_commit) off/)
  expect(stdout).toBe('')
  expect(code).toBe(1)
})

test('Ctrl-C stops everything it started', { timeout: 60_000 }, async () => {
  const { child, ended, said } = start(['loop', '--items', '1000000', '--rounds', '1'])
  await waitFor('the first system is being measured', () => said().includes('yardstick:'))
  const port = Number(/127\.0\.0\.1:(\d+)/.exec(said())?.[1])
  child.kill('SIGINT')
  // Its processes share its standard error: this waits for the last of them.
  const { code, stdout } = await ended
  expect(code).toBe(130)
  expect(stdout).toBe('')
  await expect(once(connect(port, '127.0.0.1'), 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})
