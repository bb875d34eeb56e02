import type { Codec } from '../kernel/codec/codec.js'
import { isId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import {
  type Database,
  type DefinitionRecord,
  listFilter,
  type Page,
  type Place,
  page,
  toPage,
  uuid,
} from '../kernel/model/index.js'
import { choice, declareOptions, type OptionRule } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
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
      const { cursor, limit, ...which } = checkList('list', filter)
      const found = await findCommands(db, codec, { ...which, ...afterPlace(cursor), limit: limit + 1 })
      return toPage(found, limit, ({ createdAt, id, domain }) => ({ createdAt, id: `${id} ${domain}` }))
    },
    count: async (filter) => countCommands(db, checkCount('count', filter)),
    definitions: () => findDefinitions(db),
  }
}

const key: OptionRule<string | undefined> = (where, _name, value) =>
  value === undefined ? undefined : checkKey(where, value)
const filters = { ...listFilter, key, status: choice(commandStatuses), correlationId: uuid, batch: uuid }
const checkList = declareOptions({ ...filters, ...page })
const checkCount = declareOptions(filters)

function afterPlace(place: Place | undefined): Pick<CommandFilter, 'after'> {
  if (place === undefined) return {}
  const space = place.id.indexOf(' ')
  const [id, domain] = [place.id.slice(0, space), place.id.slice(space + 1)]
  if (!isId(id)) throw invalidOption('list', 'cursor', 'must be the cursor of a page of the same list')
  return { after: { createdAt: place.createdAt, id, domain } }
}
