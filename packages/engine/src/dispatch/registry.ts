import { createRegistry, type Registry } from '../kernel/model/index.js'
import type { DefinedDispatch } from './define.js'

/** The dispatch definitions of this program. */
export type DispatchRegistry = Registry<DefinedDispatch>

export const createDispatchRegistry = (): DispatchRegistry =>
  createRegistry<DefinedDispatch>('dispatch', { named: (definition) => definition, same: Object.is })
