import {
  atStep,
  type Definition,
  definitionName,
  didYouMean,
  entry,
  PARTICIPLES,
  type Verb,
  type Work,
  workName,
} from './entry.js'

const NOT_IN_TROUBLE =
  'Nothing was changed. Another operator has acted on it, it continued by itself, it has failed again since, or the id is wrong. `hf.trouble.list` shows what needs a person now; a new failure has to be examined again.'

/** What is refused of a piece of work: a command, a process, a workflow instance, an item, or its definition. */
export const workErrors = {
  HF_NOT_FOUND: entry<Partial<Work> & Pick<Work, 'model' | 'id'>>(
    404,
    (d) => `there is no ${workName(d)}`,
    'Check the id or key, and the definition it is looked up by. Work that ended long ago may have been cleaned up.',
  ),
  HF_UNKNOWN_DEFINITION: entry<Definition & { version?: number; nearest?: string }>(
    404,
    (d) =>
      `${d.model} knows no definition ${definitionName(d)}${d.version === undefined ? '' : ` of version ${d.version}`}${didYouMean(d.nearest)}`,
    'Correct the name. A definition is known once a worker has registered it or something was begun with it.',
  ),
  HF_OTHER_TYPE: entry<Work & { actual: string }>(
    409,
    (d) => `there is no ${workName(d)}: it is of ${d.actual}`,
    'Use the definition that the work was begun with, or an id or key of its own; nothing was written.',
  ),
  HF_WRONG_STATUS: entry<
    Work & {
      step?: string
      status: string
      verb: Verb
      /** The statuses in which the verb can be used. */
      needs: readonly string[]
      /** The verbs that can be used in the status it has. */
      can: readonly Verb[]
    }
  >(
    409,
    (d) =>
      `${workName(d)}${atStep(d.step)} cannot be ${PARTICIPLES[d.verb] ?? d.verb}: it is ${d.status}, and must be ${d.needs.join(' or ')}; ${
        d.can.length === 0 ? 'nothing can be done with it now' : `what can be done with it now: ${d.can.join(', ')}`
      }`,
    'Read it again (`get()`, `why()`): another person may have acted on it, or it continued by itself. Nothing was changed.',
  ),
  HF_NOT_COMPLETED: entry<Work & { status: string; code: string; message: string }>(
    409,
    (d) => `${workName(d)} ended ${d.status}${d.code ? ` with ${d.code}: ${d.message}` : ''}`,
    'There is no result. Its `history()` says what happened.',
  ),
  HF_NEEDS_ATTENTION: entry<Work & { status: string; step: string; code: string; message: string }>(
    409,
    (d) => `${workName(d)} needs a person${atStep(d.step)}: ${d.code}: ${d.message}`,
    'It has not ended. Remove the cause, then `retry`, `complete` or `cancel` it by its handle or with `hf.trouble`; after OUTCOME_UNKNOWN find out whether the call was done: `complete` if it was, `retry` with `notDone: true` if not. Its result can be awaited again.',
  ),
  HF_RESULT_TIMEOUT: entry<
    Partial<Work> & Pick<Work, 'model' | 'id'> & { waited: string; status: string; why: string }
  >(
    504,
    (d) => `${workName(d)} did not end within ${d.waited}: it is ${d.status}. ${d.why}`,
    'Do what the message says. The work continues as soon as it can, and its result can be awaited again.',
  ),
  HF_CALL_OUTCOME_UNKNOWN: entry<Work & { step?: string }>(
    409,
    (d) =>
      `${workName(d)} cannot simply be retried${atStep(d.step)}: it must not be called twice, it is unknown whether its last call had its effect, and it cannot inquire`,
    'Find out from the external system whether it had its effect. If it had, `complete(by, result)`; if not, `retry(by, { notDone: true })`; of a process name the `step` in both. Or give it an `inquire` function, or cancel it.',
  ),
  HF_NOTHING_TO_RESOLVE: entry<Work & { step: string }>(
    409,
    (d) => `${workName(d)} has no failed step ${d.step ? `\`${d.step}\` ` : ''}of unknown outcome`,
    'Look at its `history()`: the step may have another name (`pay`, `pay#2`), or another operator has resolved it.',
  ),
  HF_CANNOT_SKIP: entry<Work & { problem: string }>(
    409,
    (d) => `${workName(d)} has no failed step that can be skipped: ${d.problem}`,
    'Nothing was changed. Complete it with its result, or cancel it.',
  ),
  HF_CANNOT_COMPLETE: entry<Work & { problem: string }>(
    409,
    (d) => `${workName(d)} cannot be completed by hand: ${d.problem}`,
    'Nothing was changed. Do what the message says, or cancel it.',
  ),
  HF_BEING_CANCELLED: entry<Work>(
    409,
    (d) => `${workName(d)} is being cancelled: an operator was told so, and no worker has carried it out yet`,
    'Nothing was changed. The first operation stands. `why()` says what it waits for; once its compensation has begun, it can be cancelled without compensation.',
  ),
  HF_CANNOT_RETRY: entry<Work & { problem: string }>(
    409,
    (d) => `a retry of ${workName(d)} would change nothing: ${d.problem}`,
    'Nothing was changed. Do what the message says, or cancel it.',
  ),
  HF_NOT_IN_TROUBLE: entry<Work>(
    409,
    (d) => `${workName(d)} no longer needs a person because of this failure`,
    NOT_IN_TROUBLE,
  ),
  HF_UNKNOWN_TROUBLE: entry<{ id: string }>(404, (d) => `nothing with the id ${d.id} needs a person`, NOT_IN_TROUBLE),
  HF_AMBIGUOUS_TROUBLE: entry<{ id: string; found: string }>(
    409,
    (d) => `the id ${d.id} is that of several pieces of work that need a person: ${d.found}`,
    'Nothing was changed. Pass records of `hf.trouble.list`, or a filter that has only one of them.',
  ),
  HF_DUPLICATE_COMMAND: entry<Work>(
    409,
    (d) => `${workName(d)} exists already, or another command of its domain has its id`,
    "Nothing was sent. If the repetition is intended, send with a `key`, or with `ifExists: 'ignore'`.",
  ),
  HF_DUPLICATE_KEY: entry<Work>(
    409,
    (d) => `${workName(d)} exists already, and is not a child of this process`,
    'Give each child a key of its own, or none: its id is derived from its parent.',
  ),
  HF_DUPLICATE_BATCH: entry<{ batchId: string }>(
    409,
    (d) => `batch ${d.batchId} exists already`,
    'Nothing was written. Add to it with `send(…, { batch })` while it is open, or create one with another id.',
  ),
  HF_BATCH_CLOSED: entry<Work & { batchId: string }>(
    409,
    (d) => `batch ${d.batchId} does not exist or takes no more items, so ${workName(d)} is not in it`,
    'Nothing was written. Add it before the batch is sealed, or to another batch.',
  ),
  HF_UNKNOWN_BATCH: entry<{ batchId: string }>(
    404,
    (d) => `batch ${d.batchId} does not exist`,
    'Check the id of the batch.',
  ),
  HF_ITEM_CONFLICT: entry<Work & { problem: string }>(
    409,
    (d) => `${workName(d)} ${d.problem}`,
    'Nothing was changed. To change an item that is still READY, schedule it with `replace: true` or call `hf.item(…).reschedule`.',
  ),
  HF_UNKNOWN_RESPONSE: entry<Definition & { response: string }>(
    404,
    (d) => `${definitionName(d)} has no response \`${d.response}\``,
    'Use a name that the definition lists in `responses`; nothing was written.',
  ),
  HF_UNKNOWN_STEP: entry<Definition & { version: number; step: string; nearest?: string }>(
    404,
    (d) => `version ${d.version} of ${definitionName(d)} has no step \`${d.step}\`${didYouMean(d.nearest)}`,
    'Use a name of the definition; nothing was changed.',
  ),
  HF_WORKFLOW_CHANGED: entry<Definition & { version: number }>(
    409,
    (d) => `workflow ${definitionName(d)} has another graph under version ${d.version} already`,
    'Raise the version: running instances keep the graph they were started with.',
  ),
  HF_START_VETOED: entry<Definition & { version: number; hook: string; problem: string }>(
    409,
    (d) => `workflow ${definitionName(d)}-v${d.version} was not started: the hook ${d.hook} refused it: ${d.problem}`,
    'Nothing was written. Correct what the hook objects to, or remove the hook.',
  ),
}
