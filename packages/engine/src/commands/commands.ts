import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { parseId } from '../kernel/ids/id.js'
import { checkOptions, choiceOption, dateOption, integerOption, textOption } from '../kernel/validation/options.js'
import type { Domains } from './domains.js'
import { type CommandFilter, type CommandRecord, findCommands } from './queries/find-commands.js'
import { createReplyQueues, type ReplyQueues } from './reply-queues.js'
import { commandStatuses } from './states.js'

/** Looking at commands, and which queues foreign clients may have replies sent to. One command is `hf.command`. */
export interface Commands extends ReplyQueues {
  /** Those that fit, newest first; 100 unless `limit` says otherwise. */
  list(filter?: Omit<Partial<CommandFilter>, 'id'>): Promise<CommandRecord[]>
}

export function createCommands(db: Database, codec: Codec, domains: Domains): Commands {
  return {
    ...createReplyQueues(db, domains),
    async list(filter = {}) {
      const checked = checkFilter(filter)
      return findCommands(db, codec, { ...filter, ...checked })
    },
  }
}

const FILTERS = ['domain', 'type', 'status', 'correlationId', 'batch', 'since', 'until', 'limit'] as const

/** What the database would refuse in its own words. */
function checkFilter(filter: Omit<Partial<CommandFilter>, 'id'>) {
  const given = checkOptions('list', filter, FILTERS)
  for (const name of ['domain', 'type'] as const) textOption('list', name, given[name], { default: undefined })
  choiceOption('list', 'status', given.status, commandStatuses, { default: undefined })
  for (const name of ['correlationId', 'batch'] as const) {
    if (given[name] !== undefined) parseId(`list: ${name}`, given[name])
  }
  for (const name of ['since', 'until'] as const) dateOption('list', name, given[name], { default: undefined })
  return { limit: integerOption('list', 'limit', given.limit, { min: 1, default: 100 }) }
}
