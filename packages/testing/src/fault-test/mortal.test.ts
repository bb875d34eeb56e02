import { silentLogger } from 'holdfast/internal'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { openKit } from '../kit/test-kit.js'
import { testDatabase } from '../server/test-server.js'
import { liveOnce } from './mortal.js'

test('X-02 a worker that is killed at one of the last statements of its close ends', async () => {
  const { connectionString } = await testDatabase()
  const admin = new pg.Pool({ connectionString, max: 1 })
  onTestFinished(() => admin.end())
  // Installs the schema, so that both lives have the same statements.
  await (await openKit({ connectionString, logger: silentLogger })).close()
  const parts = { connectionString, concurrency: 1, furnish: () => undefined }
  let points = 0
  const passing = (count: number) => {
    points = count
    return undefined
  }
  // The first does the chores that are due, and so has more statements than those that follow.
  for (const name of ['first', 'second'])
    expect(await liveOnce({ ...parts, name }, { fate: 'lives', endsAt: 0, passing }, admin)).toBe('lives')
  const fates: string[] = []
  for (const endsAt of [1, ...Array.from({ length: 6 }, (_, place) => points - 5 + place)]) {
    const plan = { fate: 'killed', endsAt, passing: () => undefined } as const
    fates.push(await liveOnce({ ...parts, name: `dies at ${endsAt}` }, plan, admin))
  }
  // With a statement less than before, the last ones live.
  expect(fates[0]).toBe('killed')
})
