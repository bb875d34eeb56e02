import { appendAudit, type By, checkBy } from '../audit/audit.js'
import type { Database } from '../database/database.js'
import { operatorCall } from '../database/operator-call.js'
import { HoldfastError } from '../errors.js'
import { invalidOption } from '../validation/invalid-option.js'
import { textOption } from '../validation/options.js'

/** What can be paused: all of a domain, one definition, or one handler. */
export type PauseSubject = { readonly domain: string } | { readonly definition: string } | { readonly handler: string }

export interface Pause {
  readonly subject: string
  readonly pausedAt: Date
  readonly actor: string
  readonly reason: string
}

/** Whether a subject is registered in this program: then the database need not know it. */
export type IsRegistered = (kind: PauseKind, name: string) => boolean

/**
 * Stops claims of a subject from the moment this commits; running work continues. Returns whether it was running
 * before: pausing twice changes nothing and keeps the first reason. A subject that was never registered is refused.
 */
export async function pauseWork(
  db: Database,
  subject: PauseSubject,
  by: By,
  isRegistered: IsRegistered = () => false,
): Promise<boolean> {
  const { kind, name: own } = partsOf('pause', subject)
  const name = `${kind}:${own}`
  const actor = checkBy('pause', by)
  if (!isRegistered(kind, own)) {
    const [row] = await db.run<{ known: boolean }>(knownStatement, [kind, own])
    if (!row?.known) throw new HoldfastError('HF_UNKNOWN_SUBJECT', { kind, name: own })
  }
  return operatorCall(db, `pause ${name}`, async (tx) => {
    const changed = await tx.run(pauseStatement, [name, actor.actor, actor.reason])
    if (changed.length === 0) return false
    await appendAudit(tx, [{ model: 'kernel', event: 'PAUSED', subject: { name }, by: actor, after: { paused: true } }])
    return true
  })
}

/** Allows claims again and wakes the workers. Returns whether the subject was paused. */
export async function resumeWork(db: Database, subject: PauseSubject, by: By): Promise<boolean> {
  const name = subjectName('resume', subject)
  const actor = checkBy('resume', by)
  return operatorCall(db, `resume ${name}`, async (tx) => {
    const [pause] = await tx.run<Pause>(resumeStatement, [name])
    if (!pause) return false
    const entry = { model: 'kernel', event: 'RESUMED', subject: { name }, by: actor }
    await appendAudit(tx, [{ ...entry, before: pause, after: { paused: false } }])
    return true
  })
}

export async function listPauses(db: Database): Promise<Pause[]> {
  return db.run<Pause>(listStatement)
}

export type PauseKind = 'domain' | 'definition' | 'handler'

/** The name under which claims look a subject up. */
export function subjectName(operation: string, subject: PauseSubject): string {
  const { kind, name } = partsOf(operation, subject)
  return `${kind}:${name}`
}

function partsOf(operation: string, subject: PauseSubject): { readonly kind: PauseKind; readonly name: string } {
  // A text has entries too: one for each character.
  const entries: [string, unknown][] = typeof subject === 'object' && subject !== null ? Object.entries(subject) : []
  const [[kind, name] = [], ...others] = entries
  const known = kind === 'domain' || kind === 'definition' || kind === 'handler'
  if (!known || others.length > 0 || typeof name !== 'string' || name.trim() === '') {
    throw invalidOption(operation, 'subject', 'must be one of { domain }, { definition } or { handler }, with a name')
  }
  return { kind, name: textOption(operation, kind, name) }
}

const knownStatement = { name: 'pausing.known', text: 'select holdfast.is_known_subject($1, $2) as known' }

const pauseStatement = {
  name: 'pausing.pause',
  text: `
    insert into holdfast.pause (subject, paused_at, actor, reason)
    values ($1, holdfast.now(), $2, $3)
    on conflict (subject) do nothing
    returning subject`,
}

// All workers that may wait for work of the subject are woken, whatever their topic: pauses are rare, and sixteen wake-ups cheap.
const resumeStatement = {
  name: 'pausing.resume',
  text: `
    with resumed as (
      delete from holdfast.pause
      where subject = $1
      returning subject, paused_at as "pausedAt", actor, reason
    ),
    woken as (
      select pg_catalog.pg_notify(holdfast.wake_channel(), bucket::text) from holdfast.wake_bucket, resumed
    )
    select resumed.* from resumed, (select pg_catalog.count(*) from woken) as all_woken`,
}

const listStatement = {
  name: 'pausing.list',
  text: `
    select subject, paused_at as "pausedAt", actor, reason
    from holdfast.pause
    order by paused_at, subject`,
}
