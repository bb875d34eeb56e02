import { checkOptions } from 'holdfast/internal'
import { inLanes } from '../harness/lanes.js'
import { openKit } from '../kit/test-kit.js'
import { dropTestDatabase, type TestDatabase, testDatabase } from '../server/test-server.js'
import { describePlan, planDeliveries } from './deliveries.js'
import { describeKill, formatPoint, formatSeed, killPointsOf, parseSeed, type RunSeed, spread } from './kill-points.js'
import type { CrashTestOptions } from './options.js'
import { type RunEnd, runOnce } from './run.js'

export interface CrashReport {
  readonly runs: number
  /** In how many of them a worker was killed. */
  readonly kills: number
  /** `before processes.write#2` and so on. */
  readonly killPoints: readonly string[]
}

/**
 * Kills your code at every point where it can be killed, and checks the invariant each time. It runs once without a kill,
 * to find these points, and then once per point: killed there, and continued by another worker. An error names the seed
 * that reruns exactly the run that failed.
 *
 * @example
 * await crashTest({
 *   world: () => createBank(),
 *   register: (bank) => [paymentVia(bank)],
 *   start: (hf, bank) => hf.start(paymentVia(bank), { paymentId: 'PAY-1' }, { key: 'PAY-1' }),
 *   invariant: ({ world }) => assert.equal(world.booked('PAY-1'), 1),
 * })
 */
export async function crashTest<World = undefined, Subject = unknown>(
  options: CrashTestOptions<World, Subject>,
): Promise<CrashReport> {
  checkOptions('crashTest', options, OPTIONS)
  const template = await prepared(options.prepare)
  try {
    return await (options.seed === undefined
      ? everywhere(options, template)
      : onlyOnce(options, template, parseSeed(options.seed)))
  } finally {
    await dropTestDatabase(template)
  }
}

const OPTIONS = [
  'world',
  'register',
  'setup',
  'prepare',
  'start',
  'cancel',
  'respond',
  'invariant',
  'killAt',
  'kills',
  'seeds',
  'seed',
  'worker',
  'lanes',
  'timeout',
] as const satisfies readonly (keyof CrashTestOptions<unknown, unknown>)[]

/** A database with the user's tables, for every run to be a copy of. */
async function prepared(sql: string | undefined): Promise<TestDatabase> {
  const template = await testDatabase()
  if (sql === undefined) return template
  const kit = await openKit({ connectionString: template.connectionString, prepare: sql })
  await kit.close()
  return template
}

async function everywhere<World, Subject>(
  options: CrashTestOptions<World, Subject>,
  template: TestDatabase,
): Promise<CrashReport> {
  const killAt = options.killAt ?? 'every-step'
  const straight = await checkedRun(options, template, { order: 0, kill: undefined })
  const polls = new Set(straight.idle)
  const seeds: RunSeed[] = killPointsOf(straight.passed, polls, killAt).map((kill) => ({ order: 0, kill }))
  if (seeds.length === 0)
    throw new Error('crashTest: there is nothing to kill: `start` has made no work that runs here')
  const orders = Array.from({ length: options.seeds ?? 1 }, (_, place) => place + 1)
  // Early responses need no wait, so every order passes other points.
  for (const order of options.respond ? orders : []) {
    const { passed } = await checkedRun(options, template, { order, kill: undefined })
    seeds.push(...killPointsOf(passed, polls, killAt).map((kill) => ({ order, kill })))
  }
  const cancelled = options.cancel ? seeds.map((seed) => ({ ...seed, cancels: true })) : []
  const chosen = [...spread(seeds, options.kills), ...spread(cancelled, options.kills)]
  let kills = 0
  await inLanes(chosen, options.lanes ?? 4, async (seed) => {
    if ((await checkedRun(options, template, seed)).killed) kills += 1
  })
  const points = new Set(chosen.flatMap(({ kill }) => (kill ? [formatPoint(kill)] : [])))
  return { runs: chosen.length + 1 + (options.respond ? orders.length : 0), kills, killPoints: [...points] }
}

async function onlyOnce<World, Subject>(
  options: CrashTestOptions<World, Subject>,
  template: TestDatabase,
  seed: RunSeed,
): Promise<CrashReport> {
  const { killed } = await checkedRun(options, template, seed)
  if (seed.kill && !killed) throw new Error(`crashTest: seed '${formatSeed(seed)}': its kill point was not reached`)
  const killPoints = seed.kill ? [formatPoint(seed.kill)] : []
  return { runs: 1, kills: killPoints.length, killPoints }
}

async function checkedRun<World, Subject>(
  options: CrashTestOptions<World, Subject>,
  template: TestDatabase,
  seed: RunSeed,
): Promise<RunEnd> {
  // The number of responses is known only once the work has started; the message shows their order anyway.
  let responses = 0
  const { respond } = options
  const counting: typeof options = respond
    ? {
        ...options,
        respond(hf, subject, world) {
          const all = respond(hf, subject, world)
          responses = all.length
          return all
        },
      }
    : options
  try {
    return await runOnce(counting, template, seed)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    const order = responses === 0 ? '' : `\n  responses: ${describePlan(planDeliveries(responses, seed.order))}`
    throw new Error(
      `crashTest: it does not hold ${describeKill(seed)}\n  ${why.replaceAll('\n', '\n  ')}${order}\n  rerun exactly this: seed: '${formatSeed(seed)}'`,
      { cause: error },
    )
  }
}
