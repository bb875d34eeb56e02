import { type Codec, createCodec, type DispatchDefinition } from 'holdfast'
import {
  checksOf,
  createDefinitions,
  createLimiter,
  createMarks,
  type Database,
  type Metrics,
  noMetrics,
  noReports,
  runChecks,
  runCycle,
  silentLogger,
} from 'holdfast/internal'

/**
 * Runs one cycle of an item type now, whenever the next would be due: what a dispatcher does, without waiting for it.
 *
 * @example
 * await hf.schedule(Settlement, { key: 'PAY-1', context, startAt })
 * await runDispatchCycle(db, Settlement)
 */
export async function runDispatchCycle<Input>(
  db: Database,
  definition: DispatchDefinition<Input>,
  { codec = createCodec(), metrics = noMetrics }: { readonly codec?: Codec; readonly metrics?: Metrics } = {},
): Promise<void> {
  const type = definition.itemType
  const [row] = await db.run<{ epoch: number }>(claimStatement, [type])
  if (!row) throw new Error(`there is no cycle of ${type}: schedule something, or start a worker`)
  const limiter = createLimiter(db)
  const workflows = { definitions: createDefinitions(db) }
  const parts = {
    db,
    definition,
    limiter,
    codec,
    marks: createMarks(),
    workflows,
    logger: silentLogger,
    metrics,
    reports: noReports,
  }
  const signal = new AbortController().signal
  await runCycle(parts, { type, epoch: row.epoch, signal }, () => false)
  await limiter.close()
}

/** Asks a remote target about everything that is stale now: what the checks of a dispatcher do. */
export async function runDispatchChecks<Input>(
  db: Database,
  definition: DispatchDefinition<Input>,
  { codec = createCodec(), metrics = noMetrics }: { readonly codec?: Codec; readonly metrics?: Metrics } = {},
): Promise<void> {
  const { target } = definition
  if ('kind' in target) throw new Error(`${definition.itemType} is executed by our own engine`)
  const type = checksOf(definition.itemType)
  const [row] = await db.run<{ epoch: number }>(claimStatement, [type])
  if (!row) throw new Error(`there are no checks of ${definition.itemType}: schedule something, or start a worker`)
  const limiter = createLimiter(db)
  const workflows = { definitions: createDefinitions(db) }
  const parts = {
    db,
    definition,
    limiter,
    codec,
    marks: createMarks(),
    workflows,
    logger: silentLogger,
    metrics,
    reports: noReports,
  }
  const signal = new AbortController().signal
  await runChecks(parts, { type, epoch: row.epoch, signal }, target, () => true)
  await limiter.close()
}

const claimStatement = {
  name: 'test.claim-cycle',
  text: `
    update holdfast.dispatch_cycle
    set lease_epoch = lease_epoch + 1,
        leased_by = 'a test',
        leased_at = holdfast.now(),
        due_at = holdfast.now() + interval '1 minute'
    where item_type = $1
    returning lease_epoch as epoch`,
}
