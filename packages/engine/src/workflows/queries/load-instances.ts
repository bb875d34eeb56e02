import type { Executor } from '../../kernel/model/index.js'
import type { WorkflowDefinition } from '../definition/definition.js'
import { type InstanceRow, type StoredInstance, toStoredInstance } from '../store/stored-instance.js'

/** Everything that decisions need to know of instances, by their ids; unknown ones are left out. */
export async function loadInstances(
  executor: Executor,
  definitions: { byId(id: number): Promise<WorkflowDefinition> },
  instances: readonly { readonly id: string }[],
): Promise<Map<string, StoredInstance>> {
  const rows = await executor.run<InstanceRow>(statement, [instances.map(({ id }) => id)])
  const found = new Map<string, StoredInstance>()
  for (const row of rows) found.set(row.id, toStoredInstance(row, await definitions.byId(row.definition_id)))
  return found
}

const statement = {
  name: 'workflows.load',
  text: `
    select
      loaded.*,
      -- Not a join: a function's rows are estimated as a thousand, and the planner would read the whole table for one.
      (
        select extract(epoch from holdfast.now() - workflow.created_at)::float8 * 1000::float8
        from holdfast.workflow
        where workflow.id = loaded.id
      ) as age_ms
    from holdfast.load_workflows($1::uuid[]) as loaded`,
}
