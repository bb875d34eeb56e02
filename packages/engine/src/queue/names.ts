import { createHash } from 'node:crypto'
import { HoldfastError } from '../kernel/errors.js'
import { describe } from '../kernel/validation/describe.js'

/** PGMQ's own limit: it puts up to 16 characters before a name, and PostgreSQL cuts names after 63. */
const MAX_LENGTH = 47
const DEFAULT_SCHEMA = 'holdfast'
/** Begins the names of all installations but the default one; no name that a user gives may begin with it. */
const MARK = 'hf_'
/** Of a schema's name in the names of its queues: enough to be recognised, and most of the 47 are left. */
const MAX_SCHEMA_PART = 16

/** Words with single underscores between them: then the `__` that follows is the first one, and no two names meet. */
const plainSchema = /^[a-z0-9]+(_[a-z0-9]+)*$/
const looksHashed = /_[0-9a-f]{8}$/
/** What PostgreSQL calls a queue's sequence and indexes: a table of that name would meet those of another queue. */
const takenEnding = /_(msg_id_seq|pkey|vt_idx|hf_type_idx)$/

/**
 * The name under which PGMQ, and so every foreign client, knows a queue of an installation. In the default schema it is
 * the name itself; in another one the schema's name comes before it, so that two installations never meet.
 *
 * @example
 * queueNameFor('holdfast', 'orders__replies')   // 'orders__replies'
 * queueNameFor('pay', 'orders__replies')        // 'hf_pay__orders__replies'
 */
export function queueNameFor(schema: string, name: string): string {
  const problem = problemOf(name) ?? lengthProblem(queuePrefix(schema), name)
  if (problem) throw new HoldfastError('HF_INVALID_QUEUE_NAME', { name: describe(name), problem })
  return `${queuePrefix(schema)}${name}`
}

/** The queue of a domain's commands: `<domain>__commands`. */
export function commandQueueFor(schema: string, domain: string): string {
  const problem = problemOf(domain)
  if (problem) throw new HoldfastError('HF_INVALID_QUEUE_NAME', { name: `the domain ${describe(domain)}`, problem })
  return queueNameFor(schema, `${domain}__commands`)
}

/** The name that an installation knows a queue by; undefined if the queue belongs to another one. */
export function ownNameOf(schema: string, queue: string): string | undefined {
  const prefix = queuePrefix(schema)
  if (prefix === '') return queue.startsWith(MARK) ? undefined : queue
  return queue.startsWith(prefix) ? queue.slice(prefix.length) : undefined
}

function problemOf(name: unknown): string | undefined {
  if (typeof name !== 'string' || name === '') return 'it must be a text that is not empty'
  if (/^[\w-]+$/.test(name) && /[A-Z]/.test(name)) {
    return `PGMQ writes names in lower case, where it would be the same queue as \`${name.toLowerCase()}\``
  }
  if (!/^[a-z0-9_-]+$/.test(name)) return 'it may hold only the letters a to z, digits, `_` and `-`'
  if (name.includes('--')) return 'PGMQ does not take `--`'
  if (name.startsWith(MARK)) return `names that begin with \`${MARK}\` are kept for installations in other schemas`
  if (takenEnding.test(name)) return 'its ending is that of an index or sequence of another queue'
  return undefined
}

function lengthProblem(prefix: string, name: string): string | undefined {
  const length = prefix.length + name.length
  if (length <= MAX_LENGTH) return undefined
  const counted = prefix === '' ? '' : ` with \`${prefix}\`, which stands for the schema,`
  return `PGMQ takes at most ${MAX_LENGTH} characters, and it has${counted} ${length}`
}

function queuePrefix(schema: string): string {
  return schema === DEFAULT_SCHEMA ? '' : `${MARK}${schemaPart(schema)}__`
}

/** Any schema name goes, so whatever is long or odd is told apart by a hash; a plain name must not look like one. */
function schemaPart(schema: string): string {
  if (plainSchema.test(schema) && schema.length <= MAX_SCHEMA_PART && !looksHashed.test(schema)) return schema
  const hash = createHash('sha256').update(schema).digest('hex').slice(0, 8)
  const words = schema.toLowerCase().replace(/[^a-z0-9]+/g, '_')
  const start = words.slice(0, MAX_SCHEMA_PART - 9).replace(/^_+|_+$/g, '')
  return `${start || 's'}_${hash}`
}
