import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Executor } from '../../kernel/model/index.js'
import type { CommandStatus } from '../states.js'

/** A command as it is now. */
export interface CommandRecord {
  readonly id: string
  /** The key that it was sent with. */
  readonly key: string | null
  readonly domain: string
  readonly type: string
  readonly status: CommandStatus
  /** How often it was received. */
  readonly attempts: number
  readonly maxAttempts: number | null
  readonly correlationId: string | null
  readonly replyTo: string | null
  readonly batchId: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
  /** When it is due next (a delay, a retry), or when its lease ends; null when it has ended. */
  readonly dueAt: Date | null
  /** Its domain, definition or handler is paused: no worker receives it. */
  readonly paused: boolean
  readonly data: unknown
  readonly result: unknown
  readonly error: { readonly kind: string; readonly code: string; readonly message: string } | null
}

export interface CommandFilter {
  readonly id?: string | undefined
  readonly domain?: string | undefined
  readonly type?: string | undefined
  readonly status?: CommandStatus | undefined
  readonly key?: string | undefined
  readonly correlationId?: string | undefined
  readonly batch?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
  /** The last command of the page before. */
  readonly after?: { readonly createdAt: Date; readonly id: string; readonly domain: string } | undefined
}

interface Row {
  command_id: string
  key: string | null
  domain: string
  type: string
  status: CommandStatus
  attempts: number
  read_ct: number | null
  uncounted: number
  max_attempts: number | null
  correlation_id: string | null
  reply_to: string | null
  batch_id: string | null
  created_at: string
  updated_at: string
  vt: string | null
  paused: boolean
  data: unknown
  notes: Record<string, string> | null
  result: unknown
  result_notes: Record<string, string> | null
  error_kind: string | null
  error_code: string | null
  error_message: string | null
}

export async function findCommands(
  executor: Executor,
  codec: Codec,
  { limit, ...filter }: CommandFilter & { readonly limit: number },
): Promise<CommandRecord[]> {
  const rows = await executor.run<{ row: Row }>(statement, [JSON.stringify({ ...requestOf(filter), limit })])
  return rows.map(({ row }) => toRecord(row, codec))
}

export async function countCommands(executor: Executor, filter: CommandFilter): Promise<number> {
  const rows = await executor.run<{ row: number }>(statement, [JSON.stringify({ ...requestOf(filter), count: true })])
  return rows[0]?.row ?? 0
}

function requestOf({ id, domain, type, status, key, correlationId, batch, since, until, after }: CommandFilter) {
  const place = after && { after: after.createdAt, after_id: after.id, after_domain: after.domain }
  return {
    command_id: id,
    domain,
    type,
    status,
    key,
    correlation_id: correlationId,
    batch_id: batch,
    since,
    until,
    ...place,
  }
}

function toRecord(row: Row, codec: Codec): CommandRecord {
  return {
    id: row.command_id,
    key: row.key,
    domain: row.domain,
    type: row.type,
    status: row.status,
    attempts: Math.max(row.attempts, row.read_ct ?? 0) - row.uncounted,
    maxAttempts: row.max_attempts,
    correlationId: row.correlation_id,
    replyTo: row.reply_to,
    batchId: row.batch_id,
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
    dueAt: row.vt === null ? null : new Date(row.vt),
    paused: row.paused,
    data: decodeOrRaw(codec, row.data, row.notes),
    result: decodeOrRaw(codec, row.result, row.result_notes),
    error:
      row.error_code === null
        ? null
        : { kind: row.error_kind ?? '', code: row.error_code, message: row.error_message ?? '' },
  }
}

const statement = {
  name: 'commands.find',
  text: 'select row from holdfast.find_commands($1::text::jsonb) as row',
}
