import type { Executor, Statement } from '../../kernel/model/index.js'
import type { Envelope } from '../envelope.js'

export type SendOutcome = 'sent' | 'duplicate' | 'queue gone' | 'reply queue gone' | 'batch closed'

/** Sends a batch of commands in one statement; returns the results in their order. For a transaction of its own or the caller's. */
export function sendCommands(executor: Executor, envelopes: readonly Envelope[]): Promise<SendOutcome[]> {
  return send(executor, sendStatement, envelopes)
}

/** The same for the group commit, which waits for no other transaction. */
export function flushSends(executor: Executor, envelopes: readonly Envelope[]): Promise<SendOutcome[]> {
  return send(executor, flushStatement, envelopes)
}

async function send(executor: Executor, statement: Statement, envelopes: readonly Envelope[]): Promise<SendOutcome[]> {
  const rows = await executor.run<RefusedRow>(statement, [requestOf(envelopes)])
  const refused = new Map(rows.map(({ in_domain: domain, id, outcome }) => [`${domain} ${id}`, outcome]))
  return envelopes.map(({ domain, commandId }) => refused.get(`${domain} ${commandId}`) ?? 'sent')
}

interface RefusedRow {
  readonly in_domain: string
  readonly id: string
  readonly outcome: SendOutcome
}

interface Part {
  readonly queue: string
  readonly commands: string[]
  plain: boolean
}

/** One part per domain; the commands are JSON already. */
function requestOf(envelopes: readonly Envelope[]): string {
  const parts = new Map<string, Part>()
  for (const { domain, queue, plain, json } of envelopes) {
    const part = parts.get(domain) ?? { queue, commands: [], plain: true }
    part.commands.push(json)
    part.plain &&= plain
    parts.set(domain, part)
  }
  return `[${Array.from(parts, ([domain, { queue, plain, commands }]) => {
    const head = JSON.stringify({ queue, domain, plain }).slice(0, -1)
    return `${head},"commands":[${commands.join(',')}]}`
  }).join(',')}]`
}

const sendStatement = {
  name: 'commands.send',
  text: 'select in_domain, id, outcome from holdfast.send_commands($1::text::jsonb)',
}

const flushStatement = {
  name: 'commands.flush-sends',
  text: 'select in_domain, id, outcome from holdfast.flush_sends($1::text::jsonb)',
}
