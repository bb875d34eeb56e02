import { type By, checkBy, type RecordedAuditEntry, readAudit } from '../kernel/audit/audit.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { operatorCall } from '../kernel/database/operator-call.js'
import type { Duration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import type { Reports } from '../kernel/reports/reports.js'
import type { Results } from '../kernel/results/results.js'
import {
  checkOptions,
  choiceOption,
  dateOption,
  durationOption,
  integerOption,
  textOption,
} from '../kernel/validation/options.js'
import type { CommandDefinition } from './define.js'
import type { Domains } from './domains.js'
import { type CommandFilter, type CommandRecord, findCommands } from './queries/find-commands.js'
import { domainOf } from './reference.js'
import { createReplyQueues, type ReplyQueues } from './reply-queues.js'
import { commandResults, resultKey } from './results.js'
import { commandStatuses } from './states.js'

interface Of {
  readonly domain: string
}

/** Looking at commands, waiting for them, and calling off those that have not begun (C-14). */
export interface Commands extends ReplyQueues {
  /** One command with everything that happened to it. */
  get(command: Of, commandId: string): Promise<CommandRecord & { readonly audit: readonly RecordedAuditEntry[] }>
  /** Those that fit, newest first; 100 unless `limit` says otherwise. */
  list(filter?: Omit<Partial<CommandFilter>, 'commandId' | 'commandIds'>): Promise<CommandRecord[]>
  /** Waits for the end and answers the result; an error where it did not complete. */
  result<Input, Data, Result>(
    command: CommandDefinition<Input, Data, Result>,
    commandId: string,
    options?: { readonly timeout?: Duration },
  ): Promise<Result>
  /** Calls off a command that no worker has received yet. */
  cancel(command: Of, commandId: string, by: By): Promise<void>
}

export function createCommands(
  db: Database,
  codec: Codec,
  { domains, results, reports }: { readonly domains: Domains; readonly results: Results; readonly reports: Reports },
): Commands {
  const ends = commandResults(db, codec)
  return {
    ...createReplyQueues(db, domains),
    async get(command, commandId) {
      const domain = domainOf('get', command)
      const id = parseId('get: commandId', commandId)
      const [found] = await findCommands(db, codec, { domain, commandId: id, limit: 1 })
      if (!found) throw new HoldfastError('HF_UNKNOWN_COMMAND', { commandId: id, domain })
      return { ...found, audit: await readAudit(db, { id, domain }) }
    },
    async list(filter = {}) {
      const checked = checkFilter(filter)
      return findCommands(db, codec, { ...filter, ...checked })
    },
    async result<Input, Data, Result>(
      command: CommandDefinition<Input, Data, Result>,
      commandId: string,
      options: { readonly timeout?: Duration } = {},
    ) {
      const domain = domainOf('result', command)
      const { timeout } = checkOptions('result', options, ['timeout'])
      const limit = durationOption('result', 'timeout', timeout, { default: '30s' })
      const id = parseId('result: commandId', commandId)
      // The worker encoded what the typed handler returned.
      return (await results.wait(ends, resultKey(domain, id), limit)) as Result
    },
    async cancel(command, commandId, by) {
      const domain = domainOf('cancel', command)
      const { actor, reason } = checkBy('cancel', by)
      const id = parseId('cancel: commandId', commandId)
      const [row] = await operatorCall(db, `cancel ${id}`, (tx) =>
        tx.run<{ outcome: string; type: string | null }>(cancelStatement, [domain, id, actor, reason]),
      )
      if (row?.outcome === 'done') {
        if (row.type !== null) reports.ended({ model: 'commands', domain, type: row.type }, 'cancelled')
        return
      }
      if (row?.outcome === 'unknown') throw new HoldfastError('HF_UNKNOWN_COMMAND', { commandId: id, domain })
      const status = row?.outcome === 'started' ? 'already received by a worker' : 'already ended or in troubleshooting'
      throw new HoldfastError('HF_WRONG_STATUS', { what: 'command', id, status, operation: 'cancelled' })
    },
  }
}

const FILTERS = ['domain', 'type', 'status', 'correlationId', 'batchId', 'since', 'until', 'limit'] as const

/** What the database would refuse in its own words. */
function checkFilter(filter: Omit<Partial<CommandFilter>, 'commandId' | 'commandIds'>) {
  const given = checkOptions('list', filter, FILTERS)
  for (const name of ['domain', 'type'] as const) textOption('list', name, given[name], { default: undefined })
  choiceOption('list', 'status', given.status, commandStatuses, { default: undefined })
  for (const name of ['correlationId', 'batchId'] as const) {
    if (given[name] !== undefined) parseId(`list: ${name}`, given[name])
  }
  for (const name of ['since', 'until'] as const) dateOption('list', name, given[name], { default: undefined })
  return { limit: integerOption('list', 'limit', given.limit, { min: 1, default: 100 }) }
}

const cancelStatement = {
  name: 'commands.cancel',
  text: `
    select
      holdfast.cancel_command($1, $2, $3, $4) as outcome,
      (select type from holdfast.command where domain = $1 and command_id = $2) as type`,
}
