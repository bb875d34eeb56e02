import type { Codec } from '../kernel/codec/codec.js'
import {
  type By,
  type CancelOptions,
  checkBy,
  checkCancelOptions,
  checkResultOptions,
  coded,
  type Database,
  notFound,
  type RecordedAuditEntry,
  type ResultOptions,
  type Results,
  readAudit,
  type Why,
} from '../kernel/model/index.js'
import { anything, boolean, declareOptions } from '../kernel/validation/declared.js'
import { parseWith } from '../kernel/validation/schema.js'
import { definedCommand } from './define.js'
import type { CommandOperations, Given } from './operations.js'
import { type CommandRecord, findCommands } from './queries/find-commands.js'
import { findWhy } from './queries/find-why.js'
import type { CommandOf } from './reference.js'
import { commandResults, resultKey } from './results.js'

export interface RetryCommandOptions<Input> {
  /** Other data for the handler, checked against the schema of the definition. Default: what was sent. */
  readonly data?: Input
  /**
   * `true` says that a person has found out that the last call was not done. Needed for a command with `atMostOnce` whose
   * outcome is unknown and whose handler has no `inquire`. Default: false.
   */
  readonly notDone?: boolean
}

/** What the methods of all handles of an installation do; a handle has only the names of its command. */
export interface CommandCalls {
  get(command: CommandOf<never>, id: string): Promise<CommandRecord>
  result<Result>(command: CommandOf<never, Result>, id: string, options: ResultOptions | undefined): Promise<Result>
  history(command: CommandOf<never>, id: string): Promise<readonly RecordedAuditEntry[]>
  why(command: CommandOf<never>, id: string): Promise<Why>
  retry<Input>(
    command: CommandOf<Input>,
    id: string,
    by: By,
    options: RetryCommandOptions<Input> | undefined,
  ): Promise<void>
  cancel(command: CommandOf<never>, id: string, by: By, options: CancelOptions | undefined): Promise<void>
  complete(command: CommandOf<never>, id: string, by: By, result: unknown): Promise<void>
}

interface Parts {
  readonly operations: CommandOperations
  readonly results: Results
}

export function createCommandCalls(db: Database, codec: Codec, { operations, results }: Parts): CommandCalls {
  const ends = commandResults(db, codec)

  async function find(command: CommandOf<never>, id: string): Promise<CommandRecord> {
    const { domain, type } = command
    const [found] = await findCommands(db, codec, { domain, type, id, limit: 1 })
    if (!found) throw notFound('commands', `${domain}/${type}`, id)
    return found
  }

  const calls: CommandCalls = {
    get: find,
    async result<Result>({ domain, type }: CommandOf<never, Result>, id: string, options?: ResultOptions) {
      const { timeout } = checkResultOptions('result', options)
      // The worker encoded what the typed handler returned.
      return (await results.wait(ends, resultKey(domain, type, id), timeout)) as Result
    },
    async history(command, id) {
      await find(command, id)
      return readAudit(db, { id, domain: command.domain })
    },
    why: async (command, id) => findWhy(db, await find(command, id)),
    async retry(command, id, by, options) {
      checkBy('retry', by)
      const { notDone } = checkRetryOptions('retry', options)
      const given = options !== undefined && 'data' in options ? await dataOf(command, options.data) : undefined
      return operations.one(notDone ? 'NOT_DONE' : 'RETRY', command, id, by, given)
    },
    async cancel(command, id, by, options) {
      checkBy('cancel', by)
      checkCancelOptions('cancel', options)
      return operations.cancel(command, id, by)
    },
    async complete(command, id, by, result) {
      checkBy('complete', by)
      const given = await operations.checkResult(command, result ?? null)
      return operations.one('COMPLETE', command, id, by, given)
    },
  }
  return coded(calls, db.schema, 'hf.command')
}

const checkRetryOptions = declareOptions({ data: anything, notDone: boolean({ default: false }) })

/** Data from an operator, and under which version of the definition it was parsed. */
async function dataOf(command: CommandOf<never>, data: unknown): Promise<Given> {
  const defined = definedCommand(command)
  if (!defined) return { given: data }
  const { domain, type, version, dataSchema } = defined
  return { given: await parseWith(dataSchema, data, `retry ${domain}/${type}`), version }
}
