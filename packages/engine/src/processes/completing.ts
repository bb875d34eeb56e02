import type { Encoded } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import { type By, type Executor, operatorCall, type Runtime } from '../kernel/model/index.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import type { DefinedProcess } from './define.js'
import { settled } from './execution/from-user-code.js'
import { type Completable, completeProcess, findCompletable } from './queries/complete-process.js'
import type { OperationAnswer } from './queries/operate-processes.js'

type CompletingParts = Pick<Runtime, 'db' | 'codec' | 'logger'>

/** Options of completing a process by hand. */
export interface CompleteOptions {
  /** Put over the state that readers see, property by property. */
  readonly state?: Readonly<Record<string, unknown>>
  readonly step?: undefined
}

/** Which step was done: `pay`, or `pay#2` where the name is used again. */
export interface CompleteStepOptions {
  readonly step: string
}

/**
 * Ends a process by hand. Its state is what readers saw last, with the responses that came since and the operator's
 * overrides: made here, where codec and reducers are, and written only if the process is still as it was then.
 */
export async function complete(
  parts: CompletingParts,
  process: Completed,
  reference: string,
  by: By,
  end: End,
): Promise<OperationAnswer> {
  const prepared = prepare(parts, process.name, end)
  for (;;) {
    const answer = await operatorCall(parts.db, `complete ${process.name} ${reference}`, (tx) =>
      once(tx, parts, process, reference, by, prepared),
    ).catch(lockedAnswer)
    // A response, a worker or another operator came first. Read it again.
    if (answer.outcome !== 'changed') return answer
  }

  function lockedAnswer(error: unknown): OperationAnswer {
    if (error instanceof HoldfastError && error.code === 'HF_BUSY') return { reference, outcome: 'busy', actual: null }
    throw error
  }
}

/** The same inside an operator's transaction, for a process that needs a person; any other is left as it is. */
export async function completeWithin(
  tx: Executor,
  parts: CompletingParts,
  process: Completed,
  reference: string,
  by: By,
  end: End,
): Promise<OperationAnswer> {
  const prepared = prepare(parts, process.name, end)
  for (;;) {
    const answer = await once(tx, parts, process, reference, by, prepared, true)
    if (answer.outcome !== 'changed') return answer
  }
}

/** Which process is completed, and its code where this program has it. */
interface Completed {
  readonly name: string
  readonly code: DefinedProcess | undefined
}

/** What the operator gave, not checked yet. */
interface End {
  readonly result?: unknown
  readonly state?: unknown
}

interface Prepared {
  readonly overrides: Readonly<Record<string, unknown>> | undefined
  readonly said: Encoded | undefined
  readonly result: Encoded | undefined
}

function prepare({ codec }: CompletingParts, name: string, end: End): Prepared {
  const overrides = checkOverrides(name, end.state)
  return {
    overrides,
    said: overrides && codec.encode(overrides, { at: 'state' }),
    result: end.result === undefined ? undefined : codec.encode(end.result, { at: 'result' }),
  }
}

async function once(
  tx: Executor,
  parts: CompletingParts,
  { name, code }: Completed,
  reference: string,
  by: By,
  { overrides, said, result }: Prepared,
  onlyInTrouble = false,
): Promise<OperationAnswer> {
  const found = await findCompletable(tx, name, reference)
  if (!found) return { reference, outcome: 'unknown', actual: null }
  if (found.type !== name) return { reference, outcome: 'other type', actual: found.type }
  if (onlyInTrouble && found.status !== 'WAITING_FOR_TSQ') return { reference, outcome: 'not in trouble', actual: null }
  const state = overrides || found.missed.length > 0 ? stateAfter(parts, code, found, overrides) : undefined
  return {
    reference,
    outcome: await completeProcess(tx, found, by, { state, result, overrides: said }),
    actual: null,
  }
}

function stateAfter(
  { codec, logger }: CompletingParts,
  code: DefinedProcess | undefined,
  { id, state, notes, missed }: Completable,
  overrides: object | undefined,
): Encoded {
  const after = codec.decode({ json: state, notes })
  try {
    for (const { name, data, notes: dataNotes } of missed) {
      const apply = code?.responses.get(name)?.apply
      const answer = apply?.(after, codec.decode({ json: data, notes: dataNotes }))
      settled(answer, `the reducer of the response \`${name}\``)
    }
  } catch (error) {
    // An operator wants it to end; a response that no wait needs does not prevent that.
    logger.warn({ err: error, id }, 'a response that no wait needs could not be applied to the state')
  }
  return codec.encode(overrides ? { ...(isRecord(after) ? after : {}), ...overrides } : after, { at: 'state' })
}

function checkOverrides(name: string, overrides: unknown): Readonly<Record<string, unknown>> | undefined {
  if (overrides === undefined) return undefined
  if (isRecord(overrides)) return overrides
  throw invalidOption(`complete ${name}`, 'state', `must be an object, not ${describe(overrides)}`)
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
