import type { CommandDefinition } from '../../commands/index.js'
import type { Duration } from '../../kernel/duration/duration.js'
import type { RetryCount } from '../../kernel/retry/retry-option.js'
import type { DefinedProcess } from '../define.js'

/** What an execution starts elsewhere and waits for. Everything here is harmless when repeated. */
export interface Remotes {
  /** Sends a command whose final reply comes back as the response `@command`. */
  sendCommand(
    process: { readonly id: string; readonly domain: string },
    command: CommandDefinition,
    data: unknown,
    options: { readonly id: string; readonly retry?: RetryCount; readonly delay?: Duration },
  ): Promise<void>
  /** Ends a command that no worker has received yet; one that has begun continues. */
  cancelCommand(process: { readonly id: string }, command: CommandDefinition, commandId: string): Promise<void>
  /** Starts a process whose end comes back as the response `@child`. */
  startChild(
    parent: { readonly id: string; readonly call: string },
    process: DefinedProcess,
    state: unknown,
    options: { readonly id: string; readonly key?: string; readonly startAt?: Date },
  ): Promise<void>
  cancelChild(parentId: string, id: string, compensate: boolean): Promise<void>
  /** Those that have not ended. */
  cancelChildren(parentId: string, compensate: boolean): Promise<void>
}

/** The final reply of a command, as a response to the process that sent it. */
export interface CommandReply {
  readonly commandId: string
  readonly outcome: 'SUCCESS' | 'FAILED' | 'CANCELLED'
  readonly result?: unknown
  readonly notes?: Record<string, string> | null
  readonly errorCode?: string
  readonly errorMessage?: string
  /** It has not completed, and may have had its effect. */
  readonly effect?: 'unknown'
}

/** The end of a child, as a response to its parent. */
export interface ChildEnd {
  readonly call: string
  readonly id: string
  readonly status: string
  /** All its effects are compensated. */
  readonly undone?: boolean | null
  readonly result?: unknown
  readonly resultNotes?: Record<string, string> | null
  readonly error?: { readonly code: string; readonly message: string } | null
}
