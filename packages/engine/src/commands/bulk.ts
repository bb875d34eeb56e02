import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { lockedByOther, operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import { type BulkCall, type BulkOperator, notInTrouble } from '../kernel/model/bulk.js'
import { workOf } from '../kernel/model/work.js'
import type { Reports } from '../kernel/reports/reports.js'
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
  async function resultOf({ verb, result }: BulkCall, domain: string, type: string) {
    if (verb !== 'complete') return undefined
    const schema = registry.find(`${domain}/${type}`)?.definition.resultSchema
    return codec.encode(await parseWith(schema, result ?? null, `complete ${domain}/${type}: result`))
  }

  function refusal(call: BulkCall, of: { domain: string; type: string }, id: string, answer?: OperatedCommand) {
    switch (answer?.outcome) {
      case undefined:
        return lockedByOther(`${call.verb} command ${id}`)
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

  return {
    atOnce: 200,
    async operate(call, of, items) {
      const { domain, type } = of
      if (call.verb === 'skip') {
        const problem = 'a command has no steps'
        return items.map(({ id }) => new HoldfastError('HF_CANNOT_SKIP', { model: 'commands', ...of, id, problem }))
      }
      const ids = items.map(({ id }) => parseId(`trouble.${call.verb}: id`, id))
      const value = await resultOf(call, domain, type)
      const action = actionOf(call)
      const { answers } = await operatorCallForMany(db, `${call.verb} commands of ${domain}/${type}`, ids, (tx, some) =>
        operateCommands(tx, { action, domain, ids: some }, call.by, value),
      )
      const known = new Map(answers.map((answer) => [answer.id, answer]))
      const refusals = ids.map((id) => refusal(call, of, id, known.get(id)))
      const end = ENDS[call.verb]
      for (const refused of refusals) if (end && !refused) reports.ended({ model: 'commands', domain, type }, end)
      return refusals
    },
  }
}

function actionOf({ verb, notDone }: BulkCall): CommandAction {
  if (verb === 'retry') return notDone ? 'NOT_DONE' : 'RETRY'
  return verb === 'cancel' ? 'CANCEL' : 'COMPLETE'
}
