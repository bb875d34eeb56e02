import { type Claimed, type ClaimRequest, claimParams, type Executor } from '../../kernel/model/index.js'

/** A received command as the database tells it; `id` is its message's, `epoch` how often that was read. */
export interface ReceivedCommand extends Claimed {
  readonly commandId: string
  readonly correlationId: string | null
  readonly batchId: string | null
  readonly maxAttempts: number | null
  readonly data: unknown
  readonly notes: Record<string, string> | null
  /** The version of the definition under which it was parsed; null when a foreign client sent it. */
  readonly version: number | null
  /** Receives that use up no attempt: interrupted by a stop, or lost while other work ran beside it. */
  readonly uncounted: number
  /** Set while it is unknown whether a call that must not be repeated had its effect. */
  readonly inquiry: 'possible' | 'impossible' | null
  /** For how long it has been due. */
  readonly waitedMs: number
}

export interface Received {
  readonly items: readonly ReceivedCommand[]
  readonly marks: readonly { readonly type: string; readonly mark: number }[]
  readonly nextDueMs: number | null
  /** Messages that are not commands, or commands that cannot be executed; archived. */
  readonly notOurs: number
}

export async function receiveCommands(
  executor: Executor,
  queue: string,
  domain: string,
  request: ClaimRequest,
): Promise<Received> {
  const [row] = await executor.run<Received>(statement, [
    queue,
    domain,
    request.lanes.map((lane) => lane.type),
    request.lanes.map((lane) => lane.from),
    ...claimParams(request),
  ])
  // Without marks: all its types are paused.
  return row ? { ...row, marks: row.marks ?? [] } : { items: [], marks: [], nextDueMs: null, notOurs: 0 }
}

const statement = {
  name: 'commands.receive',
  text: `
    select items, marks, next_due_ms as "nextDueMs", not_ours as "notOurs"
    from holdfast.receive_commands($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
}
