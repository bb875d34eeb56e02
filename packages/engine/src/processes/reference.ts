import { isId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import type { ResponseSchemas } from './context.js'
import { type DefinedProcess, definedProcess } from './define.js'
import type { ProcessRegistry } from './registry.js'

/** A kind of process: its definition, or only its names, `{ domain, type }`, in a program without the definition. */
export interface ProcessOf<Responses extends ResponseSchemas = ResponseSchemas, Result = unknown> {
  readonly domain: string
  readonly type: string
  /** Carry the types for the compiler; never set at run time. */
  readonly hears?: (responses: Responses) => void
  readonly returns?: Result
}

/** `payments/Payment` */
export function nameOf(where: string, process: ProcessOf<never>): string {
  for (const part of ['domain', 'type'] as const) {
    const value: unknown = process?.[part]
    if (typeof value === 'string' && value !== '') continue
    throw invalidOption(where, 'process', `must be a definition or { domain, type }, not ${describe(process)}`)
  }
  return `${process.domain}/${process.type}`
}

/** Refuses what was not made with `defineProcess` or `defineManager`. */
export function checkDefinition(where: string, definition: unknown): DefinedProcess {
  const defined = definedProcess(definition)
  if (defined) return defined
  throw invalidOption(
    where,
    'definition',
    `must be made with defineProcess or defineManager, not ${describe(definition)}`,
  )
}

/** The definition, if it was given or is registered here. */
export function codeOf(process: ProcessOf<never>, registry: ProcessRegistry): DefinedProcess | undefined {
  return definedProcess(process) ?? registry.find(`${process.domain}/${process.type}`)
}

/** An id in its one spelling, or a key. */
export function checkReference(where: string, idOrKey: string): string {
  return isId(idOrKey) ? idOrKey.toLowerCase() : checkKey(where, idOrKey)
}
