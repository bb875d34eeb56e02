// The handle of one instance, by id or key: status, steps, events, result, and what operators do with it. `hf.workflow` and `hf.start`
// return it. Making one costs no query. A handle with a workflow must never reach an instance of another one.

import type { Codec } from '../kernel/codec/codec.js'
import { isId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import {
  type By,
  type CancelOptions,
  checkCancelOptions,
  checkResultOptions,
  codedAsync,
  type Database,
  type Executor,
  type Handle,
  type ResultOptions,
  type Started,
  type Why,
} from '../kernel/model/index.js'
import { choiceOption } from '../kernel/validation/options.js'
import type { HumanChoice } from './decide/instance-event.js'
import type { Definitions } from './definitions.js'
import { instanceNotFound, ofOtherWorkflow } from './not-found.js'
import type { CompleteOptions, InstanceOperations, OperatedInstance, RetryOptions } from './operations.js'
import { findEvents, type WorkflowEventRecord } from './queries/find-events.js'
import { findInstance, type WorkflowRecord } from './queries/find-instances.js'
import { findSteps, type WorkflowStepRecord } from './queries/find-steps.js'
import { findWhy } from './queries/find-why.js'
import { loadInstances } from './queries/load-instances.js'
import { renderMermaid } from './render/mermaid.js'
import { renderText } from './render/text.js'

/** What all handles of an installation share. */
export interface HandleParts {
  readonly db: Database
  readonly codec: Codec
  readonly definitions: Definitions
  /** Waits for the end of an instance, by its id. */
  readonly result: (id: string, limitMs: number) => Promise<unknown>
  readonly operations: InstanceOperations
}

/** Which instance a handle is for. Without a workflow the id alone says it. */
export interface InstanceReference {
  readonly workflow?: string
  readonly idOrKey: string
  /** It was just started, so it is known to be an instance of this workflow. */
  readonly isChecked?: boolean
}

/**
 * One instance of a workflow. Made by `hf.start` and by `hf.workflow`. Operations take `{ actor, reason }` and are
 * audited; an operation that the status does not allow is refused with `HF_WRONG_STATUS` and changes nothing. Each operation
 * ends within five seconds: `HF_BUSY` and `HF_DATABASE_UNAVAILABLE` say that it did not take effect and will not,
 * `HF_OUTCOME_UNKNOWN` that it may have.
 */
export class WorkflowHandle<Result = unknown, Humans extends string = string>
  implements Handle<Result, WorkflowRecord, WorkflowEventRecord>
{
  /** The id, or the key where the handle was made with a key. */
  readonly id: string
  readonly #parts: HandleParts
  readonly #workflow: string | undefined
  /** The id, once it is known that the instance is one of the workflow. */
  #known: string | undefined

  /** @internal Use `hf.start` or `hf.workflow`. */
  constructor(parts: HandleParts, { workflow, idOrKey, isChecked = false }: InstanceReference) {
    const byId = isId(idOrKey)
    this.id = byId ? idOrKey.toLowerCase() : idOrKey
    this.#parts = parts
    this.#workflow = workflow
    if (byId && (isChecked || workflow === undefined)) this.#known = this.id
    else if (!byId) checkKey('workflow', idOrKey)
  }

  /** The instance as it is now. */
  get(): Promise<WorkflowRecord> {
    return this.#call('get', () => this.#find())
  }

  /** Waits for the end and returns the output; rejects with an error that says why if the instance did not complete. */
  result(options?: ResultOptions): Promise<Result> {
    return this.#call('result', async () => {
      const { timeout } = checkResultOptions('workflow.result', options)
      return (await this.#parts.result(await this.#instance(), timeout)) as Result
    })
  }

  /** Everything that changed it, oldest first. */
  history(): Promise<WorkflowEventRecord[]> {
    return this.#call('history', async () => {
      const { id } = await this.#find()
      return findEvents(this.#parts.db, id)
    })
  }

  /** Its steps that have been reached, in that order. */
  steps(): Promise<WorkflowStepRecord[]> {
    return this.#call('steps', async () => {
      const { id } = await this.#find()
      return findSteps(this.#parts.db, this.#parts.codec, id)
    })
  }

  /** What it waits for, and when it will continue. */
  why(): Promise<Why> {
    return this.#call('why', async () => findWhy(this.#parts.db, await this.#find()))
  }

  /** The instance as text, or as Mermaid, with its progress. `renderText` and `renderMermaid` show definitions. */
  render(format: 'text' | 'mermaid' = 'text'): Promise<string> {
    return this.#call('render', async () => {
      const chosen = choiceOption('workflow.render', 'format', format, ['text', 'mermaid'])
      const { db, definitions } = this.#parts
      const id = await this.#instance()
      const found = await loadInstances(db, definitions, [{ id }])
      const stored = found.get(id)
      if (!stored) throw this.#notFound()
      return (chosen === 'text' ? renderText : renderMermaid)(stored.definition, stored.state)
    })
  }

  /**
   * Confirms or rejects a human step. Confirmed, the instance continues at once; rejected, it is aborted.
   *
   * @example
   * await hf.workflow(Payout, 'P-1').decide('approve', 'confirm', { actor: 'ann', reason: 'checked the invoice' })
   */
  decide(step: Humans, decision: HumanChoice, by: By): Promise<void> {
    return this.#operate('decide', (on) => this.#parts.operations.decide(on, step, decision, by))
  }

  /**
   * Retries an instance that waits for a person, or for the next attempt of a step. A step that failed for good, or a
   * compensation that did, is called again with all its attempts, and what was frozen beside it continues. A step that waits for its
   * next attempt is due at once. Without `step`: all that failed for good, or, where nothing has, all that waits for an attempt.
   *
   * @example
   * await hf.workflow(Payout, 'P-1').retry({ actor: 'ann', reason: 'IBAN corrected' }, { step: 'pay', input: corrected })
   */
  retry(by: By, options?: RetryOptions): Promise<void> {
    return this.#operate('retry', (on) => this.#parts.operations.retry(on, by, options))
  }

  /**
   * Cancels the instance, wherever its steps run, undoes what was done, and ends `CANCELLED`. With `compensate: false` nothing is undone
   * and it ends `ABORTED`. A second call changes nothing.
   */
  cancel(by: By, options?: CancelOptions): Promise<void> {
    return this.#operate('cancel', async (on) => {
      const { compensate } = checkCancelOptions('workflow.cancel', options)
      await this.#parts.operations.cancel(on, by, compensate)
    })
  }

  /**
   * Says that a step which failed for good was done by other means and gave this output: the instance continues with it. Of a
   * compensation that failed for good it says that the step is undone. `step` can be left out while only one step waits for a person.
   *
   * @example
   * await hf.workflow(Payout, 'P-1').complete({ actor: 'ann', reason: 'seen at the bank' }, { receipt: 7 }, { step: 'pay' })
   */
  complete(by: By, output?: unknown, options?: CompleteOptions): Promise<void> {
    return this.#operate('complete', (on) => this.#parts.operations.complete(on, by, output, options))
  }

  /** The instance is read within the transaction of the operation, so that everything ends in time. */
  #operate(operation: string, work: (on: OperatedInstance) => Promise<void>): Promise<void> {
    const on = { label: this.id, find: (executor: Executor) => this.#instance(executor) }
    return this.#call(operation, () => work(on))
  }

  #call<T>(method: string, work: () => Promise<T>): Promise<T> {
    return codedAsync(this.#parts.db.schema, `workflow.${method}`, work)
  }

  async #instance(executor: Executor = this.#parts.db): Promise<string> {
    return this.#known ?? (await this.#find(executor)).id
  }

  async #find(executor: Executor = this.#parts.db): Promise<WorkflowRecord> {
    const workflow = this.#workflow
    const which = isId(this.id) ? { id: this.id } : { workflow: workflow ?? '', key: this.id }
    const record = await findInstance(executor, this.#parts.codec, which)
    if (!record) throw this.#notFound()
    if (workflow !== undefined && `${record.domain}/${record.type}` !== workflow) {
      const actual = `${record.domain}/${record.type}-v${record.version}`
      throw ofOtherWorkflow(workflow, this.id, actual)
    }
    this.#known = record.id
    return record
  }

  #notFound() {
    return instanceNotFound(this.id, this.#workflow)
  }
}

/** The handle that `hf.start` returns. */
export class StartedWorkflow<Result = unknown, Humans extends string = string>
  extends WorkflowHandle<Result, Humans>
  implements Started
{
  readonly created: boolean

  /** @internal */
  constructor(parts: HandleParts, reference: InstanceReference, created: boolean) {
    super(parts, reference)
    this.created = created
  }
}
