import type { Model } from '../models.js'

/** One error: its HTTP status, its message, and what to do next. */
export interface ErrorEntry<Details> {
  readonly status: number
  readonly message: (details: Details) => string
  readonly next: string
}

export const entry = <Details extends object>(
  status: number,
  message: (details: Details) => string,
  next: string,
): ErrorEntry<Details> => ({ status, message, next })

/** The definition that an error is about. */
export interface Definition {
  readonly model: Model
  readonly domain: string
  readonly type: string
}

/** The piece of work that an error is about, in the same words in all models. */
export interface Work extends Definition {
  /** Its id, or the key that it was named by. */
  readonly id: string
}

/** What a person can do with a piece of work. */
export type Verb = 'retry' | 'complete' | 'cancel' | 'resume' | 'decide' | 'reschedule' | 'expedite'

export const PARTICIPLES: Readonly<Record<Verb, string>> = {
  retry: 'retried',
  complete: 'completed',
  cancel: 'cancelled',
  resume: 'resumed',
  decide: 'decided',
  reschedule: 'rescheduled',
  expedite: 'expedited',
}

const NOUNS: Readonly<Record<Model, string>> = {
  commands: 'command',
  processes: 'process',
  workflows: 'workflow',
  dispatch: 'item',
}

export const definitionName = ({ domain, type }: Pick<Partial<Work>, 'domain' | 'type'>): string =>
  type === undefined ? '' : `${domain ? `${domain}/` : ''}${type}`

/** `process payments/Payment 0192…` */
export function workName(work: Partial<Work> & Pick<Work, 'model' | 'id'>): string {
  const name = definitionName(work)
  return `${NOUNS[work.model] ?? work.model} ${name === '' ? '' : `${name} `}${work.id}`
}

export const atStep = (step: string | undefined): string => (step ? ` at step \`${step}\`` : '')

export const didYouMean = (nearest: string | undefined): string =>
  nearest === undefined ? '' : `; did you mean \`${nearest}\`?`
