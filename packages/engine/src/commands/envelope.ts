import type { Codec } from '../kernel/codec/codec.js'
import { newId, parseId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import { keyedId } from '../kernel/ids/keyed-id.js'
import { retryCountOption } from '../kernel/retry/retry-option.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, choiceOption, dateOption, durationOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import { queueNameFor } from '../queue/index.js'
import type { DefinedCommand } from './define.js'
import type { SendOptions } from './send-options.js'

/** A command on its way to `holdfast.send_commands`, as JSON. */
export interface Envelope {
  readonly commandId: string
  readonly domain: string
  readonly type: string
  readonly queue: string
  readonly ignoreDuplicate: boolean
  /** Has no key, no batch and no reply queue, so that nothing has to be looked up or written for these. */
  readonly plain: boolean
  readonly json: string
}

export const SEND_OPTIONS = [
  'id',
  'key',
  'correlationId',
  'replyTo',
  'retry',
  'delay',
  'startAt',
  'batch',
  'ifExists',
  'transaction',
] as const satisfies readonly (keyof SendOptions)[]

interface Encoding {
  readonly codec: Codec
  readonly queue: string
  readonly schema: string
  readonly where: string
}

/**
 * Checks data and options where they enter, and nothing of them again. The result is a promise only where
 * the definition's schema is asynchronous.
 */
export function encodeEnvelope(
  definition: DefinedCommand,
  input: unknown,
  options: SendOptions,
  encoding: Encoding,
): Envelope | Promise<Envelope> {
  checkOptions(encoding.where, options, SEND_OPTIONS)
  const data = parseWith(definition.dataSchema, input, encoding.where)
  return data instanceof Promise
    ? data.then((parsed) => toEnvelope(definition, parsed, options, encoding))
    : toEnvelope(definition, data, options, encoding)
}

function toEnvelope(
  { domain, type, version }: DefinedCommand,
  data: unknown,
  options: SendOptions,
  { codec, queue, schema, where }: Encoding,
): Envelope {
  const { id, key } = options
  const commandId = idOf(where, domain, type, options)
  const ifExists = choiceOption(where, 'ifExists', options.ifExists, ['refuse', 'ignore'], {
    default: key === undefined ? 'refuse' : 'ignore',
  })
  const encoded = codec.encode(data)
  const request = {
    type,
    command_id: commandId,
    // Undefined fields are left out: for PostgreSQL, reading a null field costs as much as reading any other.
    correlation_id:
      options.correlationId === undefined ? undefined : parseId(`${where}: correlationId`, options.correlationId),
    reply_to: options.replyTo === undefined ? undefined : queueNameFor(schema, options.replyTo),
    max_attempts: retryCountOption(where, options.retry),
    batch_id: options.batch === undefined ? undefined : parseId(`${where}: batch`, options.batch),
    version,
    // An id that was generated here is unique: a command that has it was sent by this program.
    token: id === undefined && key === undefined ? undefined : newId(),
    key,
    notes: encoded.notes ?? undefined,
    ...dueOf(where, options),
  }
  // The data is JSON already; it is put in rather than parsed and written again.
  const json = `${JSON.stringify(request).slice(0, -1)},"data":${encoded.json}}`
  const plain = request.batch_id === undefined && request.reply_to === undefined && key === undefined
  return { commandId, domain, type, queue, ignoreDuplicate: ifExists === 'ignore', plain, json }
}

/** A command with a key has the id that is derived from the key, so that the same key is the same command. */
function idOf(where: string, domain: string, type: string, { id, key }: SendOptions): string {
  if (key === undefined) return id === undefined ? newId() : parseId(`${where}: id`, id)
  if (id !== undefined) throw invalidOption(where, 'key', 'goes without `id`: give one of them')
  return keyedId('command', domain, type, checkKey(where, key))
}

function dueOf(where: string, { delay, startAt }: SendOptions): { delay_ms?: number; run_at?: string } {
  if (delay !== undefined && startAt !== undefined) {
    throw invalidOption(where, 'startAt', 'goes without `delay`: give one of them')
  }
  if (delay !== undefined) return { delay_ms: durationOption(where, 'delay', delay) }
  const at = dateOption(where, 'startAt', startAt, { default: undefined })
  if (at === undefined) return {}
  const run_at = at.toISOString()
  // Years beyond 9999 or before 0 are written with a sign, which PostgreSQL does not read.
  if (/^\d{4}-/.test(run_at)) return { run_at }
  throw invalidOption(where, 'startAt', `must be within the years 0 to 9999, not ${run_at}`)
}
