import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import {
  type BulkCall,
  type BulkDefinition,
  type BulkOperator,
  createBulk,
  type Database,
  notInTrouble,
  type Reports,
  workOf,
} from '../kernel/model/index.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { parseWith } from '../kernel/validation/schema.js'
import { commandQueueFor } from '../queue/index.js'
import { ENDS } from './operations.js'
import { type CommandAction, type OperatedCommand, operateCommands } from './queries/operate-commands.js'
import type { HandlerRegistry } from './registry.js'

/** What operators do with many commands in troubleshooting: the part of `hf.trouble` that is about commands. */
export function createCommandBulk(
  db: Database,
  {
    codec,
    registry,
    reports,
  }: { readonly codec: Codec; readonly registry: HandlerRegistry; readonly reports: Reports },
): BulkOperator {
  async function resultOf({ verb, result }: BulkCall, { domain, type }: BulkDefinition) {
    if (verb !== 'complete') return undefined
    const name = `${domain}/${type}`
    const code = registry.find(name)
    if (!code) {
      const problem = `cannot be checked: this program does not handle ${name}. Call it in a program that does, or use the command's handle`
      throw invalidOption('trouble.complete', 'result', problem)
    }
    return codec.encode(await parseWith(code.definition.resultSchema, result ?? null, `complete ${name}: result`))
  }

  function refusal(of: BulkDefinition, id: string, outcome: OperatedCommand['outcome'] | undefined) {
    switch (outcome) {
      case 'done':
        return undefined
      case 'outcome unknown':
        return new HoldfastError('HF_CALL_OUTCOME_UNKNOWN', workOf('commands', `${of.domain}/${of.type}`, id))
      case 'queue gone':
        return new HoldfastError('HF_QUEUE_NOT_FOUND', { queue: commandQueueFor(db.schema, of.domain) })
      default:
        return notInTrouble('commands', of, id)
    }
  }

  return createBulk(db, {
    model: 'commands',
    atOnce: 200,
    troubles: {
      from: `
    join holdfast.command_trouble as trouble
      on trouble.command_id = asked.id::uuid and trouble.domain || '/' || trouble.type = $1`,
      since: 'trouble.since',
      of: 'trouble',
    },
    async prepare(call, of) {
      const { verb, by } = call
      if (verb === 'skip') {
        const problem = 'a command has no steps'
        return async (_, items) =>
          items.map(({ id }) => ({
            refused: new HoldfastError('HF_CANNOT_SKIP', { model: 'commands', ...of, id, problem }),
          }))
      }
      const { domain } = of
      const value = await resultOf(call, of)
      const action = actionOf(call)
      const end = ENDS[verb]
      const committed = end ? { committed: () => reports.ended({ model: 'commands', ...of }, end) } : {}
      return async (tx, items) => {
        const ids = items.map(({ id }) => id)
        const rows = await operateCommands(tx, { action, domain, ids }, by, value)
        const known = new Map(rows.map(({ id, outcome }) => [id, outcome]))
        return ids.map((id) => {
          const refused = refusal(of, id, known.get(id))
          return refused ? { refused } : committed
        })
      }
    },
  })
}

function actionOf({ verb, notDone }: BulkCall): CommandAction {
  if (verb === 'retry') return notDone ? 'NOT_DONE' : 'RETRY'
  return verb === 'cancel' ? 'CANCEL' : 'COMPLETE'
}
