import type { Encoded } from '../../kernel/codec/codec.js'
import type { By, Executor } from '../../kernel/model/index.js'

export type CommandAction = 'RETRY' | 'NOT_DONE' | 'CANCEL' | 'COMPLETE'

/** The result of an operation on one command. */
export interface OperatedCommand {
  readonly id: string
  /**
   * `outcome unknown`: it can be retried only by a person who says that its last call was not done. `queue gone`: it cannot be
   * retried, because the queue of its domain was dropped.
   */
  readonly outcome: 'done' | 'not in troubleshooting' | 'unknown' | 'outcome unknown' | 'queue gone'
}

/** Acts on commands of a domain that are in troubleshooting, in one statement with its audit; one row per id. */
export function operateCommands(
  executor: Executor,
  asked: { readonly action: CommandAction; readonly domain: string; readonly ids: readonly string[] },
  { actor, reason }: By,
  /** The new data of a retry, with the version that it was parsed under; the result of a completion. */
  value?: Encoded & { readonly version?: number | undefined },
): Promise<OperatedCommand[]> {
  const { action, domain, ids } = asked
  const notes = value?.notes ? JSON.stringify(value.notes) : null
  const given = [value?.json ?? null, notes, value?.version ?? null]
  return executor.run<OperatedCommand & object>(statement, [action, domain, ids, actor, reason, ...given])
}

const statement = {
  name: 'commands.operate',
  text: `
    select command_id as id, outcome
    from holdfast.operate_commands($1, $2, $3::uuid[], $4, $5, $6::jsonb, $7::jsonb, $8)`,
}
