import { splitName } from '../kernel/ids/name.js'
import type { DispatchConfig } from './queries/read-config.js'

/** Where items are executed: by our own processes or workflows, or by a remote target. */
export type TargetKind = 'process' | 'workflow' | 'remote'

/** The settings of a type of items as they are now; durations in milliseconds. */
export interface DispatchSettingsRecord extends Omit<DispatchConfig, 'itemType' | 'engine'> {
  readonly domain: string
  readonly type: string
  readonly target: TargetKind
}

export function toRecord({ itemType, engine, ...config }: DispatchConfig): DispatchSettingsRecord {
  return { ...splitName(itemType), target: engine.toLowerCase() as TargetKind, ...config }
}
