import { splitName } from '../../kernel/ids/name.js'
import { type Executor, knownDefinitions } from '../../kernel/model/index.js'
import type { TargetKind } from '../settings-record.js'

/** A type of items that the installation knows, and how many live workers have which version of its definition. */
export interface KnownDispatch {
  readonly domain: string
  readonly type: string
  readonly target: TargetKind
  readonly versions: readonly { readonly version: number; readonly liveWorkers: number; readonly lastSeenAt: Date }[]
}

export async function listDefinitions(executor: Executor): Promise<readonly KnownDispatch[]> {
  const [types, seen] = await Promise.all([
    executor.run<{ itemType: string; target: TargetKind }>(listStatement),
    knownDefinitions(executor, 'dispatch'),
  ])
  return types.map(({ itemType, target }) => ({
    ...splitName(itemType),
    target,
    versions: seen
      .filter(({ name }) => name === itemType)
      .map(({ version, liveWorkers, lastSeenAt }) => ({ version, liveWorkers, lastSeenAt })),
  }))
}

const listStatement = {
  name: 'dispatch.list-definitions',
  text: `
    select item_type as "itemType", pg_catalog.lower(engine) as target
    from holdfast.dispatch_config
    order by item_type`,
}
