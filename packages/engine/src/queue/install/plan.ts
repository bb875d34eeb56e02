import { quoteIdentifier } from '../../kernel/database/schema-name.js'
import { HoldfastError } from '../../kernel/errors.js'
import type { PgmqFacts, PgmqFunction } from './facts.js'

/** Which PGMQ a database has: the server's extension, or PGMQ's own SQL installed as plain SQL. */
export interface QueueInfo {
  readonly source: 'extension' | 'sql'
  /** `unknown` where the plain SQL was installed by other means, without a version. */
  readonly version: string
}

export type InstallationPlan =
  | { readonly step: 'use'; readonly info: QueueInfo }
  | { readonly step: 'create extension' }
  | { readonly step: 'install sql'; readonly createSchema: boolean }
  | { readonly step: 'refuse'; readonly error: HoldfastError }

const OLDEST = '1.5'

/** What we call, with arguments that PGMQ 1.5 has. */
const NEEDED: readonly (readonly [name: string, ...args: string[]])[] = [
  ['create', 'text'],
  ['drop_queue', 'text'],
  ['list_queues'],
  ['send', 'text', 'jsonb', 'jsonb', 'timestamp with time zone'],
  ['send_batch', 'text', 'jsonb[]', 'jsonb[]', 'timestamp with time zone'],
  ['read', 'text', 'integer', 'integer'],
  ['read_with_poll', 'text', 'integer', 'integer', 'integer', 'integer'],
  ['pop', 'text'],
  ['delete', 'text', 'bigint[]'],
  ['archive', 'text', 'bigint[]'],
  ['set_vt', 'text', 'bigint', 'integer'],
  ['purge_queue', 'text'],
  ['metrics', 'text'],
]

/** Marks the schema that we have installed; `queueInfo` reads the version from it. */
export function schemaComment(version: string): string {
  return `PGMQ ${version}, installed as plain SQL by Holdfast`
}

/**
 * What to do so that this database has PGMQ. An extension is used where there is one; what exists already is never
 * changed.
 */
export function planInstallation(facts: PgmqFacts): InstallationPlan {
  if (facts.extension !== null) return planExtension(facts, facts.extension)
  if (facts.schemaExists && !facts.schemaIsEmpty)
    return use(facts, { source: 'sql', version: versionIn(facts.comment) })
  if (facts.available !== null && isRecent(facts.available)) {
    return facts.mayCreateExtension ? { step: 'create extension' } : refuse(extensionNotPermitted(facts))
  }
  // Also if the server offers only an extension that is too old, because it is not installed here yet.
  if (facts.schemaExists) {
    return facts.ownsSchema ? { step: 'install sql', createSchema: false } : refuse(doesNotOwnSchema(facts))
  }
  return facts.mayCreateSchema ? { step: 'install sql', createSchema: true } : refuse(mayNotCreateSchema(facts))
}

/** Whether a version is 1.5 or later. */
export function isRecent(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 1 || (major === 1 && minor >= 5)
}

function planExtension(facts: PgmqFacts, version: string): InstallationPlan {
  if (!isRecent(version)) return refuse(new HoldfastError('HF_QUEUE_TOO_OLD', { version, needed: OLDEST }))
  return use(facts, { source: 'extension', version })
}

function use(facts: PgmqFacts, info: QueueInfo): InstallationPlan {
  const missing = NEEDED.filter((needed) => !facts.functions.some((present) => accepts(present, needed)))
  if (missing.length > 0) {
    const names = missing.map(([name, ...args]) => `${name}(${args.join(', ')})`).join(', ')
    const problem = `the schema "pgmq" of the database ${quoteIdentifier(facts.database)} lacks ${names}`
    return refuse(new HoldfastError('HF_QUEUE_UNAVAILABLE', { problem }))
  }
  return facts.mayUse ? { step: 'use', info } : refuse(mayNotUse(facts))
}

/** Can the function be called with these arguments? Later versions have added some that may be left out. */
function accepts({ name, args, required }: PgmqFunction, [needed, ...given]: readonly [string, ...string[]]): boolean {
  return name === needed && required <= given.length && given.every((type, position) => args[position] === type)
}

function versionIn(comment: string | null): string {
  const [, version] = /^PGMQ (\d+\.\d+\.\d+)/.exec(comment ?? '') ?? []
  return version ?? 'unknown'
}

function refuse(error: HoldfastError): InstallationPlan {
  return { step: 'refuse', error }
}

export function extensionNotPermitted(facts: PgmqFacts, cause?: unknown): HoldfastError {
  const details = {
    operation: `create the extension pgmq in the database ${quoteIdentifier(facts.database)}`,
    problem: `the role ${quoteIdentifier(facts.role)} has no right to`,
    remedy: `An administrator can run: create extension pgmq; ${grants(facts)}`,
  }
  return new HoldfastError('HF_NOT_PERMITTED', details, { cause })
}

function mayNotCreateSchema({ role, database }: PgmqFacts): HoldfastError {
  return new HoldfastError('HF_NOT_PERMITTED', {
    operation: `create the schema "pgmq" in the database ${quoteIdentifier(database)}`,
    problem: `the role ${quoteIdentifier(role)} has no right to create schemas there`,
    remedy: `An administrator can run: create schema pgmq authorization ${quoteIdentifier(role)};`,
  })
}

function doesNotOwnSchema({ role, database }: PgmqFacts): HoldfastError {
  return new HoldfastError('HF_NOT_PERMITTED', {
    operation: `install PGMQ into the empty schema "pgmq" of the database ${quoteIdentifier(database)}`,
    problem: `the role ${quoteIdentifier(role)} does not own it`,
    remedy: `An administrator can run: alter schema pgmq owner to ${quoteIdentifier(role)};`,
  })
}

function mayNotUse(facts: PgmqFacts): HoldfastError {
  return new HoldfastError('HF_NOT_PERMITTED', {
    operation: `use the schema "pgmq" of the database ${quoteIdentifier(facts.database)}`,
    problem: `the role ${quoteIdentifier(facts.role)} has no right to`,
    remedy: `An administrator can run: ${grants(facts)}`,
  })
}

/** What a role needs that makes and uses queues of its own. */
function grants({ role }: PgmqFacts): string {
  const to = quoteIdentifier(role)
  return `grant usage, create on schema pgmq to ${to}; grant select, insert, update, delete on all tables in schema pgmq to ${to};`
}
