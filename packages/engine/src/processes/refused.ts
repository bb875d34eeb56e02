import type { Work } from '../kernel/errors/entry.js'
import { HoldfastError } from '../kernel/errors.js'
import { definitionOf, notFound as missing, workOf } from '../kernel/model/index.js'
import { shown } from '../kernel/validation/describe.js'

/** A process of this definition, by its id or key, as the details of errors name it. */
export const processOf = (name: string, id: string): Work => workOf('processes', name, id)

/** No process of this definition has this id or key. */
export const notFound = (name: string, id: string) => missing('processes', name, id)

/** The id is that of a process of another definition. */
export const ofOtherType = (name: string, id: string, actual: string) =>
  new HoldfastError('HF_OTHER_TYPE', { ...processOf(name, id), actual })

export const unknownResponse = (name: string, response: unknown) =>
  new HoldfastError('HF_UNKNOWN_RESPONSE', { ...definitionOf('processes', name), response: shown(response) })
