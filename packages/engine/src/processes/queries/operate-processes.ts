import { HoldfastError } from '../../kernel/errors.js'
import { type By, type Executor, lockedByOther, wrongStatus } from '../../kernel/model/index.js'
import { notFound, ofOtherType, processOf } from '../refused.js'
import { type ProcessStatus, type ProcessVerb, verbStatuses } from '../states.js'

export type Operation = 'RETRY' | 'CANCEL' | 'RESUME' | 'RESOLVE'

/** The result of an operation on one process: done, or why not. */
export interface OperationAnswer {
  /** The id or key it was named by. */
  readonly reference: string
  readonly outcome:
    | 'done'
    /** Its failed compensations count as done, and the process goes on with its compensation. */
    | 'undone'
    | 'unknown'
    | 'other type'
    | 'deadline'
    | 'changed'
    | 'busy'
    | 'nothing'
    | 'not skippable'
    | 'not in trouble'
    | 'no failed compensation'
    | 'being cancelled'
    | 'compensation has no result'
    | `unresolved ${string}`
    | `under way ${string}`
    | `waits for ${string}`
    | ProcessStatus
  readonly actual: string | null
}

/** Each by its id or key, each with its own result, in one transaction; results come in the order of ids. */
export async function operateProcesses(
  executor: Executor,
  operation: Operation,
  name: string,
  references: readonly string[],
  { actor, reason }: By,
  options: object,
): Promise<OperationAnswer[]> {
  return executor.run<OperationAnswer>(statement, [operation, name, references, actor, reason, JSON.stringify(options)])
}

/** The error of an operation that was refused; undefined where it was done. */
export function refusalOf(
  verb: ProcessVerb,
  name: string,
  { reference: id, outcome, actual }: OperationAnswer,
  step?: string,
): HoldfastError | undefined {
  const process = processOf(name, id)
  if (says(outcome, 'unresolved ')) {
    return new HoldfastError('HF_CALL_OUTCOME_UNKNOWN', { ...process, step: outcome.slice('unresolved '.length) })
  }
  if (says(outcome, 'under way ')) {
    const command = outcome.slice('under way '.length)
    const problem = `its command ${command} is under way, and may have its effect yet: wait until it has ended or needs a person`
    return new HoldfastError('HF_CANNOT_COMPLETE', { ...process, problem })
  }
  if (says(outcome, 'waits for ')) {
    const command = outcome.slice('waits for '.length)
    const problem = `it waits for its command ${command}: retry, complete or cancel the command, whose reply lets it go on`
    return new HoldfastError('HF_CANNOT_RETRY', { ...process, problem })
  }
  switch (outcome) {
    case 'done':
    case 'undone':
      return undefined
    case 'unknown':
      return notFound(name, id)
    case 'other type':
      return ofOtherType(name, id, actual ?? '')
    case 'busy':
      return lockedByOther(`${verb} ${name} ${id}`)
    case 'deadline':
      return new HoldfastError('HF_DEADLINE_EXCEEDED', process)
    case 'not skippable':
      return new HoldfastError('HF_CANNOT_SKIP', { ...process, problem: 'it waits for something else than a step' })
    case 'being cancelled':
      return new HoldfastError('HF_BEING_CANCELLED', process)
    case 'no failed compensation':
      return new HoldfastError('HF_CANNOT_COMPLETE', {
        ...process,
        problem:
          'it is being compensated, and none of its compensations has failed: retry it, or cancel it without compensation',
      })
    case 'compensation has no result':
      return new HoldfastError('HF_CANNOT_COMPLETE', {
        ...process,
        problem:
          'its compensation failed, and completing it says that this was undone by hand: leave out `result` and `state`',
      })
    case 'not in trouble':
      return new HoldfastError('HF_NOT_IN_TROUBLE', process)
    case 'nothing':
      return new HoldfastError('HF_NOTHING_TO_RESOLVE', { ...process, step: step ?? '' })
    default:
      // A step is completed where it failed; a process wherever it waits.
      return wrongStatus(
        process,
        verb,
        outcome,
        step ? { ...verbStatuses, complete: verbStatuses.retry } : verbStatuses,
        step,
      )
  }
}

type Outcome = OperationAnswer['outcome']

const says = <Prefix extends string>(
  outcome: Outcome,
  prefix: Prefix,
): outcome is Extract<Outcome, `${Prefix}${string}`> => outcome.startsWith(prefix)

const statement = {
  name: 'processes.operate',
  text: `
    select ref as reference, outcome, actual
    from holdfast.operate_processes($1, $2, $3::text[], $4, $5, $6::text::jsonb)`,
}
