import { appendAudit, type By, checkBy } from '../audit/audit.js'
import type { Database } from '../database/database.js'
import type { Executor } from '../database/executor.js'
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
 * before: pausing twice changes nothing and keeps the first reason. A subject that was never registered is refused. The kill switch
 * of a type of items is the same pause: it is switched off too, is listed here, and either resume lifts both.
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
  const given = [actor.actor, actor.reason]
  return operatorCall(db, `pause ${name}`, async (tx) => {
    const [off] = kind === 'definition' ? await tx.run<{ before: boolean }>(switchOffStatement, [own, ...given]) : []
    const changed = await tx.run(pauseStatement, [name, ...given])
    if (changed.length === 0) return false
    await appendAudit(tx, [{ model: 'kernel', event: 'PAUSED', subject: { name }, by: actor, after: { paused: true } }])
    return off?.before ?? true
  })
}

/** Allows claims again and wakes the workers. Returns whether the subject was paused. */
export async function resumeWork(db: Database, subject: PauseSubject, by: By): Promise<boolean> {
  const { kind, name: own } = partsOf('resume', subject)
  const name = `${kind}:${own}`
  const actor = checkBy('resume', by)
  return operatorCall(db, `resume ${name}`, async (tx) => {
    const given = [own, actor.actor, actor.reason]
    const [on] = kind === 'definition' ? await tx.run(switchOnStatement, given) : []
    return (await liftPause(tx, name, actor)) || on !== undefined
  })
}

/** Removes the pause of a subject, such as `definition:payments/Settlement`. Returns whether there was one. */
export async function liftPause(tx: Executor, name: string, by: By): Promise<boolean> {
  const [pause] = await tx.run<Pause>(resumeStatement, [name])
  if (!pause) return false
  const entry = { model: 'kernel', event: 'RESUMED', subject: { name }, by }
  await appendAudit(tx, [{ ...entry, before: pause, after: { paused: false } }])
  return true
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

const switchOffStatement = {
  name: 'pausing.switch-off',
  text: `
    select enabled as before, holdfast.configure_dispatch(item_type, '{"enabled": false}'::jsonb, $2, $3)
    from holdfast.dispatch_config
    where item_type = $1`,
}
const switchOnStatement = {
  name: 'pausing.switch-on',
  text: `
    select holdfast.resume_dispatch(item_type, $2, $3)
    from holdfast.dispatch_config
    where item_type = $1 and not enabled`,
}

// The last change that switched a type of items off says who did it; one that begins switched off has none.
const listStatement = {
  name: 'pausing.list',
  text: `
    select subject, paused_at as "pausedAt", actor, reason
    from holdfast.pause
    union all
    select 'definition:' || config.item_type, coalesce(change.at, config.created_at), coalesce(change.actor, 'the definition'),
      coalesce(change.reason, 'its settings begin with enabled: false')
    from holdfast.dispatch_config as config
    left join lateral (
      select at, actor, reason
      from holdfast.audit
      where subject_name = config.item_type and model = 'dispatch' and event = 'CONFIGURED'
        and after ->> 'enabled'::text = 'false'
      order by seq desc
      limit 1
    ) as change on true
    where not config.enabled
      and not exists (select from holdfast.pause where subject = 'definition:' || config.item_type)
    order by 2, 1`,
}
