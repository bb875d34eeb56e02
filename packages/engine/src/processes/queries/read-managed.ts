import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/model/index.js'
import type { RecordDetail, RecordedFailure, RecordKind, RecordStatus } from '../history.js'
import type { StoredReply } from '../replies/message.js'
import type { EndStatus, ProcessStatus } from '../states.js'

/** What only the records of step-based processes have. */
export interface ManagedDetail extends RecordDetail {
  /** How often each step has been entered so far. */
  readonly entered?: Readonly<Record<string, number>>
  /** A reply whose handlers failed: kept for the operator's retry. */
  readonly reply?: StoredReply
  /** The record of the command that a compensation undoes. */
  readonly of?: number
  /** When a wait that has taken a reply, and continues waiting, times out. */
  readonly timeoutAt?: number
}

/** The position of a step-based process: the last event of a step. */
export interface Position {
  readonly seq: number
  readonly kind: RecordKind
  readonly name: string
  readonly occurrence: number
  readonly status: RecordStatus
  readonly attempt: number | null
  readonly detail: ManagedDetail
  /** When it was recorded, in milliseconds of the database's clock. */
  readonly at: number
}

/** A step-based process as the decision of its handlers reads it. */
export interface ManagedProcess {
  readonly id: string
  readonly type: string
  readonly version: number
  readonly status: Exclude<ProcessStatus, 'EXECUTING'>
  readonly epoch: number
  readonly generation: number
  readonly cancel: 'PLAIN' | 'COMPENSATE' | null
  /** When it was read, and when it must have ended, in milliseconds of the database's clock. */
  readonly now: number
  readonly deadline: number | null
  /** The number of the last reply that came from outside, and of the last one that is in the state. */
  readonly responses: number
  readonly seen: number
  /** The last record's number. */
  readonly seq: number
  readonly state: unknown
  readonly stateNotes: Notes | null
  readonly last: Position
  /** Replies from outside that no step has taken yet. */
  readonly ahead: readonly { readonly number: number; readonly reply: StoredReply }[]
  readonly unwind: { readonly end: EndStatus; readonly error?: RecordedFailure } | null
}

type PositionRow = readonly [
  seq: number,
  kind: RecordKind,
  name: string,
  occurrence: number,
  status: RecordStatus,
  attempt: number | null,
  result: unknown,
  notes: Notes | null,
  detail: ManagedDetail | null,
  at: number,
]

export type ManagedRow = Omit<ManagedProcess, 'last' | 'ahead'> & {
  readonly last: PositionRow
  readonly ahead: (readonly [number, StoredReply])[] | null
}

/** Whether a reply is to a command that the process sent before the one it waits for, and whether it is on record already. */
export interface SentBefore {
  readonly earlierCommand?: boolean
  readonly recorded?: boolean
}

export type KnownRow = readonly [messageId: string, command: object | null, recorded: boolean]

interface AskedReply {
  readonly messageId: string
  readonly readCount: number
  readonly reply: Pick<StoredReply, 'commandId'>
  readonly replyId: string | null
}

/** Processes as they are now, and which of the messages are still this worker's. */
export async function readManaged(
  executor: Executor,
  queue: string,
  processes: readonly { readonly id: string; readonly replies: readonly AskedReply[] }[],
) {
  const asked = processes.flatMap(({ id, replies }) => [
    { id },
    ...replies.map(({ messageId, readCount, reply, replyId }) => ({
      msg_id: messageId,
      read_ct: readCount,
      id,
      command_id: reply.commandId,
      reply_id: replyId,
    })),
  ])
  const [row] = await executor.run<{ managed: ManagedRow[] | null; known: KnownRow[] | null; mine: string[] }>(
    readStatement,
    [queue, JSON.stringify(asked)],
  )
  return { managed: toManaged(row?.managed), known: toKnown(row?.known), mine: new Set(row?.mine) }
}

export interface CompletedCommand {
  readonly seq: number
  readonly step: string
  readonly occurrence: number
}

/** The commands to undo, the last one first. */
export async function findCompletedCommands(
  executor: Executor,
  { id, generation }: ManagedProcess,
  before: number,
): Promise<CompletedCommand[]> {
  const [row] = await executor.run<{ commands: (readonly [number, string, number])[] | null }>(completedStatement, [
    id,
    generation,
    before,
  ])
  return (row?.commands ?? []).map(([seq, step, occurrence]) => ({ seq, step, occurrence }))
}

export function toManaged(rows: readonly ManagedRow[] | null | undefined): ReadonlyMap<string, ManagedProcess> {
  return new Map((rows ?? []).map((row) => [row.id, { ...row, last: toPosition(row.last), ahead: toAhead(row.ahead) }]))
}

export function toKnown(rows: readonly KnownRow[] | null | undefined): ReadonlyMap<string, SentBefore> {
  const toBefore = ([messageId, command, recorded]: KnownRow) =>
    [messageId, { earlierCommand: command !== null, recorded }] as const
  return new Map(rows?.map(toBefore))
}

function toPosition([seq, kind, name, occurrence, status, attempt, , , detail, at]: PositionRow): Position {
  return { seq, kind, name, occurrence, status, attempt, detail: detail ?? {}, at }
}

const toAhead = (rows: ManagedRow['ahead']) => (rows ?? []).map(([number, reply]) => ({ number, reply }))

const readStatement = {
  name: 'processes.read-managed',
  text: 'select * from holdfast.read_managed($1, $2::text::jsonb)',
}
const completedStatement = {
  name: 'processes.completed-commands',
  text: 'select holdfast.completed_commands($1, $2, $3) as commands',
}
