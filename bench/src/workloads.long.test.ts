import { type EmbeddedServer, startEmbedded } from '@holdfast/embedded'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { start } from './main.fixture.js'

// A small run of each workload.

let server: EmbeddedServer
beforeAll(async () => {
  // One for all, which keeps what it has committed: that of the tests may have fsync off, and is refused.
  server = await startEmbedded({
    ephemeral: true,
    settings: { fsync: 'on', synchronous_commit: 'on', shared_preload_libraries: 'pg_stat_statements' },
  })
})
afterAll(() => server.stop())

interface Case {
  readonly workload: string
  readonly items: number
  readonly of: readonly string[]
  readonly results: number
  readonly details: Readonly<Record<string, unknown>>
  /** It has no peers. */
  readonly alone?: boolean
}

const figure = expect.any(Number)
// Of each a system of ours and one of another's: what all of them do is the business of a real run.
const cases: readonly Case[] = [
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
    details: { p95: figure, p99: figure },
  },
  {
    workload: 'commands-backlog',
    items: 1000,
    of: ['holdfast receive (backlog a fifth', 'pg-boss fetch (backlog a fifth'],
    results: 2,
    details: { p95: figure },
  },
  { workload: 'limiter', items: 2000, of: ['callers 50,', 'callers 50)'], results: 2, details: {} },
  { workload: 'limiter-rate', items: 800, of: ['burst 50'], results: 2, details: { 'most in 1 s': figure } },
  { workload: 'process-steps', items: 50, of: ['concurrency 100,'], results: 1, details: {} },
  { workload: 'process-latency', items: 5, of: ['DBOS'], results: 1, details: { p95: figure, step: figure } },
  { workload: 'process-waits', items: 50, of: ['openwo'], results: 1, details: {} },
  { workload: 'process-history', items: 100, of: ['DBOS'], results: 1, details: { start: figure, growth: figure } },
  {
    workload: 'workflow-chain',
    items: 50,
    of: ['concurrency 100,', 'workflows (concurrency 200'],
    results: 2,
    details: {},
  },
  { workload: 'workflow-fork', items: 50, of: ['workflows (concurrency 200'], results: 1, details: {}, alone: true },
  { workload: 'workflow-backlog', items: 3000, of: ['waiting all'], results: 1, details: {}, alone: true },
  { workload: 'dispatch-million', items: 500, of: ['release (batch 500)'], results: 1, details: {}, alone: true },
]

test.each(cases)(
  '$workload runs ours and its peers, if it has any',
  async ({ workload, items, of, results, details, alone }) => {
    const systems = of.flatMap((name) => ['--system', name])
    const args = [workload, '--items', String(items), '--rounds', '1', '--json', ...systems]
    const { code, stdout, stderr } = await start(args, { DATABASE_URL: server.connectionString }).ended
    expect(stderr).toContain('round 1/1')
    expect(code).toBe(0)
    const found = stdout
      .trim()
      .split('\n')
      .map((result) => JSON.parse(result))
    expect(found).toHaveLength(results)
    expect(new Set(found.map(({ role }) => role))).toContain(alone ? 'holdfast' : 'peer')
    for (const result of found) expect(result).toMatchObject({ value: figure, ...details })
  },
)
