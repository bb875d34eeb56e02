import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { isId, parseId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import type { DefinitionRecord } from '../kernel/model/definition-record.js'
import { type Page, readCursor, toPage } from '../kernel/model/page.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, choiceOption, dateOption, integerOption, textOption } from '../kernel/validation/options.js'
import type { Domains } from './domains.js'
import { type CommandFilter, type CommandRecord, countCommands, findCommands } from './queries/find-commands.js'
import { findDefinitions } from './queries/find-definitions.js'
import { createReplyQueues, type ReplyQueues } from './reply-queues.js'
import { type CommandStatus, commandStatuses } from './states.js'

/** Which commands: those that match all given fields. */
export interface CommandListFilter {
  readonly domain?: string
  readonly type?: string
  /**
   * Waiting and running commands, and those that need a person, are found at once. For `COMPLETED`, `FAILED` and `CANCELLED` the newest commands are read until
   * enough of them match: pass `since` with a rare status.
   */
  readonly status?: CommandStatus
  readonly key?: string
  readonly correlationId?: string
  /** The id of a batch. */
  readonly batch?: string
  /** Sent at that moment or later. */
  readonly since?: Date
  /** Sent before that moment. */
  readonly until?: Date
  /** Where the page before ended. */
  readonly cursor?: string
  /** How many commands a page has. Default: 100. */
  readonly limit?: number
}

/** All commands of an installation, and which queues foreign clients may have replies sent to. One command is `hf.command`. */
export interface Commands extends ReplyQueues {
  /**
   * A page of the commands that match, newest first.
   *
   * @example
   * const { items, cursor } = await hf.commands.list({ domain: 'payments', status: 'PENDING' })
   */
  list(filter?: CommandListFilter): Promise<Page<CommandRecord>>
  /** How many match. Reads all of them. */
  count(filter?: Omit<CommandListFilter, 'cursor' | 'limit'>): Promise<number>
  /** The types of commands that the installation knows, by name. */
  definitions(): Promise<readonly DefinitionRecord[]>
}

export function createCommands(db: Database, codec: Codec, domains: Domains): Commands {
  return {
    ...createReplyQueues(db, domains),
    async list(filter) {
      const given = checkOptions('list', filter, [...FILTERS, 'cursor', 'limit'])
      const limit = integerOption('list', 'limit', given.limit, { min: 1, max: 10_000, default: 100 })
      const after = checkCursor(given.cursor)
      const found = await findCommands(db, codec, { ...checkFilter('list', given), ...after, limit: limit + 1 })
      return toPage(found, limit, ({ createdAt, id, domain }) => ({ createdAt, id: `${id} ${domain}` }))
    },
    count: async (filter) => countCommands(db, checkFilter('count', checkOptions('count', filter, FILTERS))),
    definitions: () => findDefinitions(db),
  }
}

const FILTERS = ['domain', 'type', 'status', 'key', 'correlationId', 'batch', 'since', 'until'] as const

/** Values that the database would refuse with an error of its own. */
function checkFilter(where: string, given: Partial<Record<(typeof FILTERS)[number], unknown>>): CommandFilter {
  const id = (name: 'correlationId' | 'batch') =>
    given[name] === undefined ? undefined : parseId(`${where}: ${name}`, given[name])
  return {
    domain: textOption(where, 'domain', given.domain, { default: undefined }),
    type: textOption(where, 'type', given.type, { default: undefined }),
    status: choiceOption(where, 'status', given.status, commandStatuses, { default: undefined }),
    key: given.key === undefined ? undefined : checkKey(where, given.key),
    correlationId: id('correlationId'),
    batch: id('batch'),
    since: dateOption(where, 'since', given.since, { default: undefined }),
    until: dateOption(where, 'until', given.until, { default: undefined }),
  }
}

function checkCursor(cursor: unknown): Pick<CommandFilter, 'after'> {
  const place = readCursor('list', cursor)
  if (place === undefined) return {}
  const space = place.id.indexOf(' ')
  const [id, domain] = [place.id.slice(0, space), place.id.slice(space + 1)]
  if (!isId(id)) throw invalidOption('list', 'cursor', 'must be the cursor of a page of the same list')
  return { after: { createdAt: place.createdAt, id, domain } }
}
