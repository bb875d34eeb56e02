import type { By } from '../../kernel/audit/audit.js'
import type { Executor } from '../../kernel/database/executor.js'
import { lockedByOther } from '../../kernel/database/operator-call.js'
import { HoldfastError } from '../../kernel/errors.js'
import { splitName } from '../../kernel/ids/name.js'
import { notInTrouble } from '../../kernel/model/bulk.js'
import { notFound } from '../reference.js'
import type { ProcessStatus } from '../states.js'

export type Operation = 'RETRY' | 'CANCEL' | 'RESUME' | 'COMPLETE' | 'RESOLVE'

/** What became of one process: done, or why not. */
export interface OperationAnswer {
  /** The id or key it was named by. */
  readonly reference: string
  readonly outcome:
    | 'done'
    | 'unknown'
    | 'other type'
    | 'deadline'
    | 'changed'
    | 'busy'
    | 'nothing'
    | 'not skippable'
    | 'not in trouble'
    | `unresolved ${string}`
    | ProcessStatus
  readonly actual: string | null
}

/** Each by its id or key, each with its own result, in one transaction; results come in the order of ids. */
export async function operateProcesses(
  executor: Executor,
  operation: Exclude<Operation, 'COMPLETE'>,
  name: string,
  references: readonly string[],
  { actor, reason }: By,
  options: object,
): Promise<OperationAnswer[]> {
  return executor.run<OperationAnswer>(statement, [operation, name, references, actor, reason, JSON.stringify(options)])
}

const did = {
  RETRY: 'retried',
  CANCEL: 'cancelled',
  RESUME: 'resumed',
  COMPLETE: 'completed',
  RESOLVE: 'resolved',
} as const

/** The error of an operation that was refused; undefined where it was done. */
export function refusalOf(
  operation: Operation,
  name: string,
  { reference: id, outcome, actual }: OperationAnswer,
  step = '',
): HoldfastError | undefined {
  if (isUnresolved(outcome)) {
    return new HoldfastError('HF_OUTCOME_UNRESOLVED', { id, step: outcome.slice('unresolved '.length) })
  }
  switch (outcome) {
    case 'done':
      return undefined
    case 'unknown':
      return notFound(name, id)
    case 'other type':
      return new HoldfastError('HF_PROCESS_OF_OTHER_TYPE', { id, process: name, actual: actual ?? '' })
    case 'busy':
      return lockedByOther(`${operation.toLowerCase()} ${name} ${id}`)
    case 'deadline':
      return new HoldfastError('HF_DEADLINE_EXCEEDED', { id })
    case 'not skippable':
      return new HoldfastError('HF_CANNOT_SKIP', {
        what: 'process',
        id,
        problem: 'it waits for something else than a step',
      })
    case 'not in trouble':
      return notInTrouble('processes', splitName(name), id)
    case 'nothing':
      return new HoldfastError('HF_NOTHING_TO_RESOLVE', { id, step })
    default:
      return new HoldfastError('HF_WRONG_STATUS', {
        what: 'process',
        id,
        status: outcome,
        operation: did[operation],
      })
  }
}

const isUnresolved = (outcome: OperationAnswer['outcome']): outcome is `unresolved ${string}` =>
  outcome.startsWith('unresolved ')

const statement = {
  name: 'processes.operate',
  text: `
    select ref as reference, outcome, actual
    from holdfast.operate_processes($1, $2, $3::text[], $4, $5, $6::text::jsonb)`,
}
