import type { Definition, Verb, Work } from '../errors/entry.js'
import { HoldfastError } from '../errors.js'
import { splitName } from '../ids/name.js'
import type { Model } from '../models.js'

/** The definition `domain/type`, as the details of errors name it. */
export const definitionOf = (model: Model, name: string): Definition => ({ model, ...splitName(name) })

/** A piece of work of the definition `domain/type`, as the details of errors name it. */
export const workOf = (model: Model, name: string, id: string): Work => ({ ...definitionOf(model, name), id })

/** The error of every call about work that does not exist. */
export function notFound(model: Model, name: string | undefined, id: string): HoldfastError<'HF_NOT_FOUND'> {
  return new HoldfastError('HF_NOT_FOUND', name === undefined ? { model, id } : workOf(model, name, id))
}

/** The statuses in which a person can use each verb. One that needs more than the status says so after it: `PENDING before …`. */
export type VerbStatuses = Readonly<Partial<Record<Verb, readonly string[]>>>

/** The error of a verb that does not fit the status of the work; it says what would fit, and what can be done instead. */
export function wrongStatus(
  work: Work,
  verb: Verb,
  status: string,
  verbs: VerbStatuses,
  step?: string,
): HoldfastError<'HF_WRONG_STATUS'> {
  const fits = (statuses: readonly string[]) => statuses.some((one) => one === status || one.startsWith(`${status} `))
  const names = Object.keys(verbs) as Verb[]
  const can = names.filter((name) => name !== verb && fits(verbs[name] ?? []))
  const details = { ...work, ...(step === undefined ? {} : { step }), status, verb, needs: verbs[verb] ?? [], can }
  return new HoldfastError('HF_WRONG_STATUS', details)
}
