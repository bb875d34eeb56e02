import { createCodec } from '../../kernel/codec/codec.js'
import { normalizeRetryPolicy } from '../../kernel/retry/retry-policy.js'
import type { DefinedProcess } from '../define.js'
import type { RecordedResponse } from '../history.js'
import type { RecordedEvent } from './apply.js'
import type { RemoteSpec, StepSpec } from './call-spec.js'
import { ProcessState } from './process-state.js'
import { ExecutionState } from './state.js'

/** The state of an execution before its first event. */
export function emptyState(responses: readonly RecordedResponse[] = []): ExecutionState {
  const codec = createCodec()
  const definition = { responses: new Map([['told', {}]]) } as unknown as DefinedProcess
  const data = new ProcessState({ definition, codec, initial: {}, seen: 0, unmet: [], events: [], responses })
  return new ExecutionState(data, codec, { startAt: 0, cancel: null })
}

/** A record of the first occurrence of a call, unless told otherwise. */
export function recorded(
  seq: number,
  event: Pick<RecordedEvent, 'kind' | 'name' | 'status'> & Partial<RecordedEvent>,
): RecordedEvent {
  return { seq, at: seq * 1_000, occurrence: 1, seen: null, ...event }
}

const attempts = { maxAttempts: 1, policy: normalizeRetryPolicy([]) }
const undoing = {
  compensate: () => undefined,
  compensateIf: 'possible',
  compensateRetry: attempts,
  compensateTimeoutMs: 1_000,
  onFailure: 'tsq',
} as const

export const step: StepSpec = {
  kind: 'STEP',
  run: () => undefined,
  timeoutMs: 1_000,
  rateLimit: undefined,
  atMostOnce: false,
  inquire: undefined,
  request: undefined,
  retry: attempts,
  ...undoing,
}

export const command: RemoteSpec = {
  kind: 'COMMAND',
  begin: async () => undefined,
  withhold: async () => undefined,
  cancel: async () => undefined,
  timeoutMs: undefined,
  onTimeout: 'tsq',
  ...undoing,
}
