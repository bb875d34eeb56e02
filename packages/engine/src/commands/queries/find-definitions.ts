import { splitName } from '../../kernel/ids/name.js'
import { type DefinitionRecord, type Executor, knownDefinitions } from '../../kernel/model/index.js'

/** The types of commands that workers have or had, and those that were only sent; by name. */
export async function findDefinitions(executor: Executor): Promise<DefinitionRecord[]> {
  const [known, sent] = await Promise.all([
    knownDefinitions(executor, 'commands'),
    executor.run<{ domain: string; type: string }>(sentStatement),
  ])
  const found = new Map<string, DefinitionRecord>()
  for (const { domain, type } of sent) {
    found.set(`${domain}/${type}`, { domain, type, versions: [], liveWorkers: 0, lastSeenAt: null })
  }
  for (const { name, liveWorkers, lastSeenAt } of known) {
    found.set(name, { ...splitName(name), versions: [], liveWorkers, lastSeenAt })
  }
  return [...found].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, definition]) => definition)
}

const sentStatement = {
  name: 'commands.sent-types',
  text: `
    select queue.domain, sent.type
    from holdfast.command_queue as queue
    cross join lateral pg_catalog.unnest(holdfast.command_types(queue.domain)) as sent (type)`,
}
