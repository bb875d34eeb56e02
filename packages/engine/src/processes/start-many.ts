// Starts many processes, all or none, in one transaction: sequential ones, and step-based ones with their first commands. Their
// clients use it.

import { HoldfastError } from '../kernel/errors.js'
import {
  checkMany,
  type Database,
  type Executor,
  type Queryable,
  type StartedOne,
  type Statement,
} from '../kernel/model/index.js'
import { checkOptions } from '../kernel/validation/options.js'
import type { StartDetails } from './encode-start.js'
import { type EncodedStart, type StartAnswer, startProcesses } from './queries/start-processes.js'
import { notFound, ofOtherType, processOf } from './refused.js'
import type { ProcessStatus } from './states.js'

export interface ProcessToStart<Input> extends StartDetails {
  readonly input: Input
}

export interface StartManyOptions {
  /** Your own transaction: the processes are created in it. */
  readonly transaction?: Queryable
  /** The batch of all of them. */
  readonly batch?: string
}

/** What the start of one process may say. */
export const DETAILS = ['id', 'key', 'startAt', 'delay', 'deadline', 'attributes', 'batch'] as const

const CHUNK = 1_000

export async function startAll(
  db: Database,
  definition: { readonly name: string },
  processes: readonly ProcessToStart<unknown>[],
  options: StartManyOptions = {},
  by: {
    readonly encode: (input: unknown, details: StartDetails, where: string) => Promise<EncodedStart>
    readonly statement?: Statement
  },
): Promise<StartedOne[]> {
  const given = checkOptions('startMany', options, ['transaction', 'batch'])
  checkMany('startMany', 'processes', processes)
  const encoded: EncodedStart[] = []
  for (const [place, one] of processes.entries()) {
    const where = `startMany ${definition.name}: processes[${place}]`
    checkOptions(where, one ?? null, ['input', ...DETAILS])
    const shared = given.batch === undefined ? {} : { batch: options.batch as string }
    encoded.push(await by.encode(one.input, { ...one, ...shared }, where))
  }
  const started: StartedOne[] = []
  const startIn = async (executor: Executor) => {
    started.length = 0
    for (let from = 0; from < encoded.length; from += CHUNK) {
      const chunk = encoded.slice(from, from + CHUNK)
      const answers = await startProcesses(executor, chunk, by.statement)
      for (const [place, one] of chunk.entries()) {
        const batch = options.batch ?? processes[from + place]?.batch
        const { id, created } = checkAnswer(answers[place], one, definition, batch)
        started.push({ id, created })
      }
    }
  }
  await (options.transaction === undefined
    ? db.transaction(startIn, { retry: true })
    : startIn(db.inside(options.transaction)))
  return started
}

export function checkAnswer(
  answer: StartAnswer | undefined,
  { id }: EncodedStart,
  { name }: { readonly name: string },
  batchId: string | undefined,
): StartedOne & { readonly status: ProcessStatus } {
  if (!answer) throw notFound(name, id)
  if (answer.status === 'batch closed') {
    throw new HoldfastError('HF_BATCH_CLOSED', { ...processOf(name, id), batchId: batchId ?? '' })
  }
  if (answer.status === 'other type') {
    throw ofOtherType(name, id, 'another definition')
  }
  return { id: answer.id, status: answer.status, created: answer.created }
}
