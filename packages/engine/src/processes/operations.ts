// What operators do to processes: retry, cancel, complete, resume. Handles and `hf.trouble` call it. Each call is one
// transaction, audited, and returns within five seconds. A call that does not fit the status of the process changes
// nothing.

import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Logger } from '../kernel/logger.js'
import type { CancelOptions } from '../kernel/model/handle.js'
import { chunksOf } from '../kernel/model/lists.js'
import { type Reports, splitName } from '../kernel/reports/reports.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { booleanOption, checkOptions, textOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import { type CompleteOptions, type CompleteStepOptions, complete } from './completing.js'
import type { ResponseSchemas } from './context.js'
import type { ProcessDefinition } from './define.js'
import type { ProcessCalls } from './handle.js'
import { findTroubledIds } from './queries/list-process-trouble.js'
import { type Operation, type OperationAnswer, operateProcesses, refusalOf } from './queries/operate-processes.js'
import { checkReference, codeOf, nameOf, type ProcessOf } from './reference.js'
import type { ProcessRegistry } from './registry.js'
import type { AnyRetry, RetryOptions } from './retry-options.js'
import { deadlineOf } from './seal-start.js'

/** Which ones: by id or key, or those in troubleshooting: all of them, or those that failed alike. */
export type WhichProcesses = readonly string[] | { readonly fingerprint: string } | 'all'

/** What became of one of many. */
export type BulkOperationAnswer =
  | { readonly process: string; readonly outcome: 'done' }
  | { readonly process: string; readonly outcome: 'refused'; readonly code: string; readonly message: string }

/** Operations on many processes at once, each with its own answer. */
export interface BulkOperations {
  retryMany<Responses extends ResponseSchemas>(
    process: ProcessOf<Responses>,
    which: WhichProcesses,
    by: By,
    options?: RetryOptions<NoInfer<Responses>>,
  ): Promise<BulkOperationAnswer[]>
  cancelMany(
    process: ProcessOf<never>,
    which: WhichProcesses,
    by: By,
    options?: CancelOptions,
  ): Promise<BulkOperationAnswer[]>
  completeMany<Responses extends ResponseSchemas, Result>(
    process: ProcessOf<Responses, Result>,
    which: WhichProcesses,
    by: By,
    result?: NoInfer<Result>,
    options?: CompleteOptions,
  ): Promise<BulkOperationAnswer[]>
}

/**
 * What operators do with processes. Everything takes who acts and why, is audited in the same transaction, and is
 * refused in states where it makes no sense. A process is named by its id or key.
 */
export type ProcessOperations = Pick<ProcessCalls, 'retry' | 'resume' | 'cancel' | 'complete'> & BulkOperations

interface Parts {
  readonly codec: Codec
  readonly registry: ProcessRegistry
  readonly logger: Logger
  readonly reports: Reports
}

/** Each transaction locks so many processes at most: a worker's write to one of them waits for no more than these. */
const CHUNK = 200
/** Completed side by side. */
const AT_ONCE = 8

type Operate = (references: readonly string[]) => Promise<OperationAnswer[]>

interface Prepared {
  readonly operation: Operation
  readonly name: string
  readonly operate: Operate
  /** Which step it is about, for messages. */
  readonly step?: string | undefined
}

export function createProcessOperations(db: Database, { codec, registry, logger, reports }: Parts): ProcessOperations {
  async function retrying(process: ProcessOf<never>, by: By, options: AnyRetry = {}): Promise<Prepared> {
    const name = nameOf('retry', process)
    const where = `retry ${name}`
    const given = checkOptions(where, options, ['response', 'deadline', 'notDone', 'step'])
    const notDone = booleanOption(where, 'notDone', given.notDone, { default: false })
    const step = textOption(where, 'step', given.step, { max: 220, default: undefined })
    if (step !== undefined && !notDone)
      throw invalidOption(where, 'step', 'is only for `notDone: true`: otherwise everything that failed is tried again')
    if (step !== undefined && options.response !== undefined)
      throw invalidOption(where, 'response', 'is for a retry of everything that failed, not of one step')
    const response = options.response && (await sealCorrection(where, codeOf(process, registry), options.response))
    const deadline = deadlineOf(where, options.deadline)
    if (step !== undefined) return { ...inChunks('RESOLVE', name, by, { ...deadline, step, outcome: 'notDone' }), step }
    return inChunks('RETRY', name, by, { response, ...deadline, ...(notDone ? { not_done: true } : {}) })
  }

  async function sealCorrection(
    where: string,
    code: ProcessDefinition | undefined,
    correction: { readonly name: string; readonly data: unknown },
  ) {
    const { name, data } = correction
    checkOptions(`${where}: response`, correction, ['name', 'data'])
    const known = code?.responses.get(name)
    if (!known)
      throw new HoldfastError('HF_UNKNOWN_RESPONSE', { process: where.slice('retry '.length), response: name })
    const { json, notes } = codec.encode(await parseWith(known.data, data, `${where}: ${name}`), { at: name })
    return { name, data: JSON.parse(json) as unknown, notes }
  }

  async function cancelling(process: ProcessOf<never>, by: By, options: CancelOptions = {}): Promise<Prepared> {
    const name = nameOf('cancel', process)
    const given = checkOptions(`cancel ${name}`, options, ['compensate'])
    const compensate = booleanOption(`cancel ${name}`, 'compensate', given.compensate, { default: true })
    return inChunks('CANCEL', name, by, { mode: compensate ? 'COMPENSATE' : 'PLAIN' })
  }

  /** Without a step it ends; with one, that step was done and the process goes on. */
  async function completing(
    process: ProcessOf<never>,
    by: By,
    result: unknown,
    options: CompleteOptions | CompleteStepOptions = {},
  ): Promise<Prepared> {
    const name = nameOf('complete', process)
    const where = `complete ${name}`
    const given = checkOptions(where, options, ['state', 'step'])
    const step = textOption(where, 'step', given.step, { max: 220, default: undefined })
    if (step === undefined) return ending(process, name, by, result, given.state)
    if (given.state !== undefined) {
      throw invalidOption(where, 'state', 'is only for a process that ends, not for one of its steps')
    }
    const done = { step, outcome: 'done' }
    if (result === undefined) return { ...inChunks('RESOLVE', name, by, { ...done, nothing: true }), step }
    const { json, notes } = codec.encode(result, { at: `the result of ${step}` })
    return { ...inChunks('RESOLVE', name, by, { ...done, result: JSON.parse(json) as unknown, notes }), step }
  }

  function ending(process: ProcessOf<never>, name: string, by: By, result: unknown, state: unknown): Prepared {
    const actor = checkBy('complete', by)
    const code = codeOf(process, registry)
    const one = (reference: string) =>
      complete({ db, codec, logger }, { name, code }, reference, actor, { result, state })
    return {
      operation: 'COMPLETE',
      name,
      async operate(references) {
        const answers = await inParallel(references, AT_ONCE, one)
        const what = { model: 'processes', ...splitName(name) } as const
        for (const { outcome } of answers) if (outcome === 'done') reports.ended(what, 'completed')
        return answers
      },
    }
  }

  function inChunks(operation: Exclude<Operation, 'COMPLETE'>, name: string, by: By, options: object): Prepared {
    const actor = checkBy(operation.toLowerCase(), by)
    return {
      operation,
      name,
      async operate(references) {
        const answers = new Map<string, OperationAnswer>()
        for (const chunk of chunksOf(references, CHUNK)) {
          const done = await operatorCallForMany(db, `${operation.toLowerCase()} ${name}`, chunk, (tx, some) =>
            operateProcesses(tx, operation, name, some, actor, options),
          )
          for (const answer of done.answers) answers.set(answer.reference, answer)
          for (const reference of done.busy) answers.set(reference, { reference, outcome: 'busy', actual: null })
        }
        return references.map((reference) => answers.get(reference) ?? { reference, outcome: 'unknown', actual: null })
      },
    }
  }

  async function one({ operation, name, operate, step }: Prepared, idOrKey: string): Promise<void> {
    const [answer] = await operate([checkReference(`${operation.toLowerCase()} ${name}`, idOrKey)])
    const refusal = answer && refusalOf(operation, name, answer, step)
    if (refusal) throw refusal
  }

  async function many({ operation, name, operate }: Prepared, which: WhichProcesses): Promise<BulkOperationAnswer[]> {
    const answers = await operate(await namedBy(`${operation.toLowerCase()}Many ${name}`, name, which))
    return answers.map((answer) => {
      const refusal = refusalOf(operation, name, answer)
      if (!refusal) return { process: answer.reference, outcome: 'done' }
      return { process: answer.reference, outcome: 'refused', code: refusal.code, message: refusal.message }
    })
  }

  async function namedBy(where: string, name: string, which: WhichProcesses): Promise<readonly string[]> {
    if (which === 'all') return findTroubledIds(db, name, null)
    if (Array.isArray(which)) return [...new Set(which.map((reference) => checkReference(where, reference)))]
    const { fingerprint } = checkOptions(where, which, ['fingerprint'])
    if (typeof fingerprint === 'string' && fingerprint !== '') return findTroubledIds(db, name, fingerprint)
    throw invalidOption(where, 'which', "must be a list of ids and keys, { fingerprint } or 'all'")
  }

  return {
    retry: async (process, idOrKey, by, options) => one(await retrying(process, by, options), idOrKey),
    cancel: async (process, idOrKey, by, options) => one(await cancelling(process, by, options), idOrKey),
    complete: async (process, idOrKey, by, result, options) =>
      one(await completing(process, by, result, options), idOrKey),
    resume: async (process, idOrKey, by) => one(inChunks('RESUME', nameOf('resume', process), by, {}), idOrKey),
    retryMany: async (process, which, by, options) => many(await retrying(process, by, options), which),
    cancelMany: async (process, which, by, options) => many(await cancelling(process, by, options), which),
    completeMany: async (process, which, by, result, options) =>
      many(await completing(process, by, result, options), which),
  }
}

async function inParallel<Item, Answer>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = []
  let next = 0
  const worker = async () => {
    for (let place = next++; place < items.length; place = next++) answers[place] = await work(items[place] as Item)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker))
  return answers
}
