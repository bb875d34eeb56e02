// Stores and reads definitions, each once per program. Workers, starters and events ask it by object, by id or by name. A stored
// version never changes: another graph under the same version must be refused.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import { HoldfastError } from '../kernel/errors.js'
import { definitionOf, type Executor } from '../kernel/model/index.js'
import { nearestName } from '../kernel/validation/nearest.js'
import { inputSchemaOf } from './define.js'
import { canonicalWorkflow, workflowHash } from './definition/canonical.js'
import type { WorkflowDefinition } from './definition/definition.js'
import { loadWorkflow } from './definition/load.js'
import { workflowReference } from './definition/names.js'
import { ROOT } from './queries/claim-steps.js'

export interface KnownDefinition {
  readonly id: number
  readonly definition: WorkflowDefinition
}

export type Definitions = ReturnType<typeof createDefinitions>

interface Row {
  id: number
  hash: string
  body: unknown
  checksInput?: boolean
}

/** The lane of starts whose input is not checked yet. `holdfast.queue_instance_starts` makes the same name. */
const laneOf = ({ name, version }: Pick<WorkflowDefinition, 'name' | 'version'>) => `${ROOT} ${name}-v${version}`

/** The stored definitions, each read or written once: a stored version never changes. */
export function createDefinitions(db: Executor) {
  const stored = new WeakMap<WorkflowDefinition, Promise<KnownDefinition>>()
  const known = new Map<number, KnownDefinition>()
  const inputs = new Map<string, { readonly domain: string; readonly schema: StandardSchemaV1 }>()

  /** Keeps the schema of its input: this program can check starts that other programs could not. */
  function learn(definition: WorkflowDefinition): void {
    const schema = inputSchemaOf(definition)
    if (schema) inputs.set(laneOf(definition), { domain: definition.domain, schema })
  }

  async function storeNow(given: WorkflowDefinition): Promise<KnownDefinition> {
    // A program can build an object that looks like a workflow, and a stored definition stays.
    const definition = loadWorkflow(JSON.parse(canonicalWorkflow(given)))
    const { name, version, lease = null } = definition
    const hash = workflowHash(definition)
    const params = [name, version, hash, canonicalWorkflow(definition), lease, inputSchemaOf(given) !== undefined]
    const row = (await storeRow(params)) ?? (await storeRow(params))
    if (row?.hash !== hash)
      throw new HoldfastError('HF_WORKFLOW_CHANGED', { ...definitionOf('workflows', name), version })
    return remember({ id: row.id, definition })
  }

  /** Nothing where another program has stored it since this statement began: the next one sees it. */
  async function storeRow(params: readonly unknown[]): Promise<{ id: number; hash: string } | undefined> {
    const [row] = await db.run<{ id: number; hash: string }>(storeStatement, [...params])
    return row
  }

  function remember(one: KnownDefinition): KnownDefinition {
    const before = known.get(one.id)
    if (before === undefined) known.set(one.id, one)
    // One object per definition: what is derived from it is kept by its identity.
    return before ?? one
  }

  const toKnown = ({ id, body }: Row): KnownDefinition =>
    known.get(id) ?? remember({ id, definition: loadWorkflow(body) })

  return {
    learn,
    /** The schema of its input, where this program has it. */
    inputSchema: (definition: Pick<WorkflowDefinition, 'name' | 'version'>) => inputs.get(laneOf(definition))?.schema,
    /** The lanes of starts whose input this program can check: of these domains, or of all. */
    uncheckedLanes: (domains: readonly string[] | undefined) =>
      [...inputs].flatMap(([lane, { domain }]) => (domains === undefined || domains.includes(domain) ? [lane] : [])),
    /** Stores it unless it is there; refuses another graph under a version that is. */
    store(definition: WorkflowDefinition): Promise<KnownDefinition> {
      learn(definition)
      let storing = stored.get(definition)
      if (storing === undefined) {
        storing = storeNow(definition)
        stored.set(definition, storing)
        // An outage of the database must not be remembered as a definition that cannot be stored.
        storing.catch(() => stored.delete(definition))
      }
      return storing
    },
    /** Stores it again the next time: the database may have been restored to a state without it. */
    forget: (definition: WorkflowDefinition) => void stored.delete(definition),
    async byId(id: number): Promise<WorkflowDefinition> {
      const before = known.get(id)
      if (before) return before.definition
      const [row] = await db.run<Row>(byIdStatement, [id])
      if (!row) throw new HoldfastError('HF_UNKNOWN_DEFINITION', definitionOf('workflows', `#${id}`))
      return toKnown(row).definition
    },
    /** `order-v2`, or the newest `order`; and whether a program has stored it with a schema for its input. */
    async find(reference: string): Promise<KnownDefinition & { readonly checksInput: boolean }> {
      const { name, version = null } = workflowReference(reference)
      const [row] = await db.run<Row>(findStatement, [name, version])
      if (row) return { ...toKnown(row), checksInput: row.checksInput === true }
      const names = await db.run<{ name: string }>(namesStatement)
      const nearest = nearestName(
        reference,
        names.map((it) => it.name),
      )
      const details = { ...definitionOf('workflows', name), ...(version === null ? {} : { version }) }
      throw new HoldfastError('HF_UNKNOWN_DEFINITION', nearest ? { ...details, nearest } : details)
    },
    /** The shortest lease that a stored definition asks for. */
    async shortestLease(): Promise<number | null> {
      const [row] = await db.run<{ lease: number | null }>(leaseStatement)
      return row?.lease ?? null
    },
  }
}

const storeStatement = {
  name: 'workflows.store-definition',
  text: `
    with stored as (
      insert into holdfast.workflow_definition (name, version, hash, body, lease_ms, checks_input, created_at)
      values ($1, $2, $3, $4::text::jsonb, $5, $6, holdfast.now())
      on conflict (name, version) do nothing
      returning id, hash
    ),
    noted as (
      update holdfast.workflow_definition
      set checks_input = true
      where name = $1 and version = $2 and hash = $3 and $6 and not checks_input
    )
    select id, hash from stored
    union all
    select id, hash from holdfast.workflow_definition where name = $1 and version = $2
    limit 1`,
}
const byIdStatement = {
  name: 'workflows.definition-by-id',
  text: 'select id, hash, body from holdfast.workflow_definition where id = $1',
}
const findStatement = {
  name: 'workflows.find-definition',
  text: `
    select id, hash, body, checks_input as "checksInput"
    from holdfast.workflow_definition
    where name = $1 and ($2::int is null or version = $2)
    order by version desc
    limit 1`,
}
const namesStatement = {
  name: 'workflows.definition-names',
  text: 'select distinct name from holdfast.workflow_definition order by name limit 1000',
}
const leaseStatement = {
  name: 'workflows.shortest-lease',
  text: 'select pg_catalog.min(lease_ms) as lease from holdfast.workflow_definition',
}
