import { type Codec, createCodec, type DispatchDefinition } from 'holdfast'
import {
  checksOf,
  createDefinitions,
  createLimiter,
  createMarks,
  type Database,
  type DefinedDispatch,
  definedDispatch,
  type Metrics,
  noMetrics,
  noReports,
  runChecks,
  runCycle,
  silentLogger,
} from 'holdfast/internal'

interface Options {
  readonly codec?: Codec
  readonly metrics?: Metrics
}

/**
 * Runs one cycle of a type of items now, whenever the next would be due: what a dispatcher does, without waiting for it.
 *
 * @example
 * await hf.schedule(Settlement, { key: 'PAY-1', context, startAt })
 * await runDispatchCycle(db, Settlement)
 */
export async function runDispatchCycle<Input>(
  db: Database,
  dispatch: DispatchDefinition<Input>,
  options: Options = {},
): Promise<void> {
  const definition = definedOf(dispatch)
  await running(db, definition, definition.name, options, (parts, cycle) => runCycle(parts, cycle, () => false))
}

/** Asks a remote target about everything that is stale now: what the checks of a dispatcher do. */
export async function runDispatchChecks<Input>(
  db: Database,
  dispatch: DispatchDefinition<Input>,
  options: Options = {},
): Promise<void> {
  const definition = definedOf(dispatch)
  const { target, name } = definition
  if ('kind' in target) throw new Error(`${name} is executed by our own engine`)
  await running(db, definition, checksOf(name), options, (parts, cycle) => runChecks(parts, cycle, target, () => true))
}

function definedOf(dispatch: object): DefinedDispatch {
  const defined = definedDispatch(dispatch)
  if (defined) return defined
  throw new Error('a definition is made with defineDispatch')
}

async function running(
  db: Database,
  definition: DefinedDispatch,
  type: string,
  { codec = createCodec(), metrics = noMetrics }: Options,
  run: (parts: Parameters<typeof runCycle>[0], cycle: Parameters<typeof runCycle>[1]) => Promise<void>,
): Promise<void> {
  const [row] = await db.run<{ epoch: number }>(claimStatement, [type])
  if (!row) throw new Error(`there is no cycle ${type}: schedule something, or start a worker`)
  const limiter = createLimiter(db)
  const parts = {
    db,
    definition,
    limiter,
    codec,
    marks: createMarks(),
    workflows: { definitions: createDefinitions(db) },
    logger: silentLogger,
    metrics,
    reports: noReports,
  }
  await run(parts, { type, epoch: row.epoch, signal: new AbortController().signal })
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
