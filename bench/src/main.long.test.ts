import { once } from 'node:events'
import { connect } from 'node:net'
import { waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { start } from './main.fixture.js'

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
