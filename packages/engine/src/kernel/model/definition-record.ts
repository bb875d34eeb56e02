/** A definition that the installation knows, because a worker has or had it, or because work of it was begun. */
export interface DefinitionRecord {
  readonly domain: string
  readonly type: string
  /** The versions that workers have or had, oldest first; empty where a model has none. */
  readonly versions: readonly number[]
  /** How many live workers have it. */
  readonly liveWorkers: number
  /** When a worker last said that it has it; null where none ever did. */
  readonly lastSeenAt: Date | null
}
