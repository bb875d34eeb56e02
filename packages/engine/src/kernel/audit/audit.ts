import type { Executor } from '../database/executor.js'
import { HoldfastError } from '../errors.js'
import { parseId } from '../ids/id.js'
import { checkOptions, textOption } from '../validation/options.js'

/** Who acts and why: every change by an operator needs both. */
export interface By {
  readonly actor: string
  readonly reason: string
}

export interface AuditEntry {
  readonly model: string
  readonly event: string
  /** What the entry is about: an id, or a name where there is no id. */
  readonly subject: { readonly id: string } | { readonly name: string }
  readonly by?: By
  readonly before?: unknown
  readonly after?: unknown
  readonly detail?: unknown
}

export interface RecordedAuditEntry {
  readonly at: Date
  readonly model: string
  readonly event: string
  readonly subject: string
  readonly actor: string | null
  readonly reason: string | null
  readonly before: unknown
  readonly after: unknown
  readonly detail: unknown
}

/** Appends entries in the transaction of the change that they describe; only inserts. */
export async function appendAudit(executor: Executor, entries: readonly AuditEntry[]): Promise<void> {
  await executor.run(appendStatement, [JSON.stringify(entries)])
}

/** Refuses an operator's call that does not say who acts and why. */
export function checkBy(operation: string, by: By | undefined): By {
  const checked = { actor: partOf(operation, by, 'actor'), reason: partOf(operation, by, 'reason') }
  checkOptions(operation, by, ['actor', 'reason'])
  return checked
}

/** What fits a line of a list, and a short report. */
const LONGEST = { actor: 200, reason: 2_000 } as const

function partOf(operation: string, by: unknown, part: keyof By): string {
  const text = typeof by === 'object' && by !== null && part in by ? (by as Partial<Record<string, unknown>>)[part] : ''
  const found = typeof text === 'string' ? text.trim() : ''
  if (found !== '') return textOption(operation, part, found, { max: LONGEST[part] })
  throw new HoldfastError('HF_INVALID_ACTOR', { operation, missing: part })
}

/**
 * The entries about one subject, in the order in which they were written: a clock that is set back, or a statement that began
 * early and had to wait, does not change it. Commands of two domains may have the same id; their entries name the domain in
 * `detail`, and with a domain only those of that domain are returned.
 */
export async function readAudit(
  executor: Executor,
  subject: { readonly id: string; readonly domain?: string } | { readonly name: string },
): Promise<RecordedAuditEntry[]> {
  const { id, name, domain = null } = checkSubject(subject)
  return id === undefined
    ? executor.run<RecordedAuditEntry & object>(readByNameStatement, [name])
    : executor.run<RecordedAuditEntry & object>(readByIdStatement, [id, domain])
}

function checkSubject(subject: unknown): { readonly id?: string; readonly name?: string; readonly domain?: string } {
  const where = 'auditTrail'
  // Anything but an object: also a text, whose id one might have meant.
  const given = checkOptions(where, subject ?? null, ['id', 'name', 'domain'])
  const domain = textOption(where, 'domain', given.domain, { default: undefined })
  if (given.id !== undefined)
    return { id: parseId(`${where}: id`, given.id), ...(domain === undefined ? {} : { domain }) }
  return { name: textOption(where, 'name', given.name) }
}

const appendStatement = {
  name: 'audit.append',
  text: `
    insert into holdfast.audit (at, model, event, subject_id, subject_name, actor, reason, before, after, detail)
    select
      holdfast.now(),
      it ->> 'model'::text,
      it ->> 'event'::text,
      (it -> 'subject'::text ->> 'id'::text)::uuid,
      it -> 'subject'::text ->> 'name'::text,
      it -> 'by'::text ->> 'actor'::text,
      it -> 'by'::text ->> 'reason'::text,
      it -> 'before'::text,
      it -> 'after'::text,
      it -> 'detail'::text
    from pg_catalog.jsonb_array_elements($1::text::jsonb) as it`,
}

const columns = `
  at, model, event, coalesce(subject_id::text, subject_name) as subject, actor, reason, before, after, detail`

const readByIdStatement = {
  name: 'audit.read-by-id',
  text: `
    select ${columns}
    from holdfast.audit
    where subject_id = $1 and ($2::text is null or coalesce(detail ->> 'domain'::text, $2) = $2)
    order by seq`,
}

const readByNameStatement = {
  name: 'audit.read-by-name',
  text: `select ${columns} from holdfast.audit where subject_name = $1 order by seq`,
}
