// What operators do to processes: retry, cancel, complete, resume. Handles and `hf.trouble` call it. Each call is one
// transaction, audited, and returns within five seconds. A call that does not fit the status of the process changes
// nothing.

import type { Codec } from '../kernel/codec/codec.js'
import { splitName } from '../kernel/ids/name.js'
import {
  type By,
  type CancelOptions,
  checkBy,
  checkCancelOptions,
  type Database,
  type Logger,
  operatorCall,
  type Reports,
} from '../kernel/model/index.js'
import { anything, boolean, declareOptions, text } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { parseWith } from '../kernel/validation/schema.js'
import { type CompleteOptions, type CompleteStepOptions, complete } from './completing.js'
import type { DefinedProcess } from './define.js'
import { deadlineOf } from './encode-start.js'
import type { ProcessCalls } from './handle.js'
import { type Operation, type OperationAnswer, operateProcesses, refusalOf } from './queries/operate-processes.js'
import { checkReference, codeOf, nameOf, type ProcessOf } from './reference.js'
import { unknownResponse } from './refused.js'
import type { ProcessRegistry } from './registry.js'
import type { AnyRetry } from './retry-options.js'
import type { ProcessVerb } from './states.js'

/**
 * What operators do with processes. Everything takes who acts and why, is audited in the same transaction, and is
 * refused in states where it makes no sense. A process is named by its id or key.
 */
export type ProcessOperations = Pick<ProcessCalls, 'retry' | 'resume' | 'cancel' | 'complete'>

const step = text({ max: 220 })
const checkRetryOptions = declareOptions({
  response: anything,
  deadline: anything,
  notDone: boolean({ default: false }),
  step,
})
const checkCompleteOptions = declareOptions({ state: anything, step })
const checkCorrection = declareOptions({ name: anything, data: anything })

interface Parts {
  readonly codec: Codec
  readonly registry: ProcessRegistry
  readonly logger: Logger
  readonly reports: Reports
}

interface Prepared {
  readonly verb: ProcessVerb
  readonly name: string
  readonly operate: (reference: string) => Promise<OperationAnswer>
  /** Which step it is about, for messages. */
  readonly step?: string | undefined
}

export function createProcessOperations(db: Database, { codec, registry, logger, reports }: Parts): ProcessOperations {
  async function retrying(process: ProcessOf<never>, by: By, options: AnyRetry = {}): Promise<Prepared> {
    const name = nameOf('retry', process)
    const where = `retry ${name}`
    const { notDone, step } = checkRetryOptions(where, options)
    if (step !== undefined && !notDone)
      throw invalidOption(where, 'step', 'is only for `notDone: true`: otherwise everything that failed is tried again')
    if (step !== undefined && options.response !== undefined)
      throw invalidOption(where, 'response', 'is for a retry of everything that failed, not of one step')
    const response = options.response && (await encodeCorrection(where, codeOf(process, registry), options.response))
    const deadline = deadlineOf(where, options.deadline)
    if (step !== undefined) return operating('retry', name, by, { ...deadline, step, outcome: 'notDone' }, step)
    return operating('retry', name, by, { response, ...deadline, ...(notDone ? { not_done: true } : {}) })
  }

  async function encodeCorrection(
    where: string,
    code: DefinedProcess | undefined,
    correction: { readonly name: string; readonly data: unknown },
  ) {
    const { name, data } = correction
    checkCorrection(`${where}: response`, correction)
    const known = code?.responses.get(name)
    if (!known) throw unknownResponse(where.slice('retry '.length), name)
    const { json, notes } = codec.encode(await parseWith(known.data, data, `${where}: ${name}`), { at: name })
    return { name, data: JSON.parse(json) as unknown, notes }
  }

  async function cancelling(process: ProcessOf<never>, by: By, options: CancelOptions = {}): Promise<Prepared> {
    const name = nameOf('cancel', process)
    const { compensate } = checkCancelOptions(`cancel ${name}`, options)
    return operating('cancel', name, by, { mode: compensate ? 'COMPENSATE' : 'PLAIN' })
  }

  /** Without a step the process ends; with one, that step was done and the process continues. */
  async function completing(
    process: ProcessOf<never>,
    by: By,
    result: unknown,
    options: CompleteOptions | CompleteStepOptions = {},
  ): Promise<Prepared> {
    const name = nameOf('complete', process)
    const where = `complete ${name}`
    const { step, state } = checkCompleteOptions(where, options)
    if (step === undefined) return ending(process, name, by, result, state)
    if (state !== undefined) {
      throw invalidOption(where, 'state', 'is only for a process that ends, not for one of its steps')
    }
    const done = { step, outcome: 'done' }
    if (result === undefined) return operating('complete', name, by, { ...done, nothing: true }, step)
    const { json, notes } = codec.encode(result, { at: `the result of ${step}` })
    return operating('complete', name, by, { ...done, result: JSON.parse(json) as unknown, notes }, step)
  }

  function ending(process: ProcessOf<never>, name: string, by: By, result: unknown, state: unknown): Prepared {
    const actor = checkBy('complete', by)
    const code = codeOf(process, registry)
    return {
      verb: 'complete',
      name,
      async operate(reference) {
        const answer = await complete({ db, codec, logger }, { name, code }, reference, actor, { result, state })
        if (answer.outcome === 'done') reports.ended({ model: 'processes', ...splitName(name) }, 'completed')
        return answer
      },
    }
  }

  function operating(verb: ProcessVerb, name: string, by: By, options: object, step?: string): Prepared {
    const actor = checkBy(verb, by)
    const operation = step === undefined ? (verb.toUpperCase() as Operation) : 'RESOLVE'
    return {
      verb,
      name,
      step,
      async operate(reference) {
        const [answer] = await operatorCall(db, `${verb} ${name} ${reference}`, (tx) =>
          operateProcesses(tx, operation, name, [reference], actor, options),
        )
        return answer ?? { reference, outcome: 'unknown', actual: null }
      },
    }
  }

  async function one({ verb, name, operate, step }: Prepared, idOrKey: string): Promise<void> {
    const answer = await operate(checkReference(`${verb} ${name}`, idOrKey))
    const refusal = refusalOf(verb, name, answer, step)
    if (refusal) throw refusal
  }

  return {
    retry: async (process, idOrKey, by, options) => one(await retrying(process, by, options), idOrKey),
    cancel: async (process, idOrKey, by, options) => one(await cancelling(process, by, options), idOrKey),
    complete: async (process, idOrKey, by, result, options) =>
      one(await completing(process, by, result, options), idOrKey),
    resume: async (process, idOrKey, by) => one(operating('resume', nameOf('resume', process), by, {}), idOrKey),
  }
}
