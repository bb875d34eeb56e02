import type { System } from '../../harness/workload.js'
import type { Payload } from '../../libraries/payload.js'

/** A library's ways to send: each resolves when what it was given is committed. */
export interface Sender {
  one(payload: Payload): Promise<unknown>
  bulk(payloads: readonly Payload[]): Promise<unknown>
  close(): Promise<void>
}

export interface SendingLibrary extends Pick<System, 'name' | 'version' | 'role' | 'config'> {
  /** An empty installation. */
  readonly install: (connectionString: string) => Promise<void>
  readonly open: (connectionString: string) => Promise<Sender>
}
