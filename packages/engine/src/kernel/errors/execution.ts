import { entry, type Work, workName } from './entry.js'

/** What goes wrong while a worker executes something. */
export const executionErrors = {
  HF_LEASE_LOST: entry<{ id: string; epoch: string }>(
    409,
    (d) => `the lease ${d.epoch} of ${d.id} is lost: another worker has it, or it has ended`,
    'Nothing was written and nothing needs doing: the worker with the newer lease continues.',
  ),
  HF_INSTANCE_HELD: entry<{ id: string }>(
    503,
    (d) => `another transaction has locked a step of workflow instance ${d.id}`,
    'Nothing was changed; the step is tried again.',
  ),
  HF_CANCELLED: entry<Work>(
    409,
    (d) => `${workName(d)} is cancelled`,
    'Stop; what the call returns is still recorded.',
  ),
  HF_DEADLINE_EXCEEDED: entry<Work>(
    409,
    (d) => `${workName(d)} is past its deadline`,
    'Retry it with a new deadline, or cancel it.',
  ),
  HF_RATE_LIMITED: entry<{ key: string; maxWait: string; retryAfter: number }>(
    429,
    (d) => `rate limit \`${d.key}\` has no slot free within ${d.maxWait}; try again after ${d.retryAfter} ms`,
    'No slot was taken. Try again after `details.retryAfter` (in milliseconds), wait for longer (`maxWait`), or raise the limit.',
  ),
  HF_STEP_NAME_REUSED: entry<{ name: string; first: string; second: string }>(
    409,
    (d) => `the name \`${d.name}\` is used for a ${d.first} and for a ${d.second}`,
    'Give the two calls different names: the record identifies calls by their names.',
  ),
  HF_CONTINUE_WITH_OPEN_CALLS: entry<Work & { calls: string }>(
    409,
    (d) => `${workName(d)} called continueAsNew while ${d.calls} had not ended: its new history would not know of them`,
    'Await these calls before continueAsNew, and deploy; then retry the process.',
  ),
  HF_CONTINUE_WITH_COMPENSATIONS: entry<Work & { calls: string }>(
    409,
    (d) =>
      `${workName(d)} called continueAsNew while ${d.calls} could still have to be undone: compensations are not carried over into the new history`,
    'Where what was done stays done, call continueAsNew(state, { keepEffects: true }), and deploy; then retry the process. To undo it, cancel it with compensation.',
  ),
  HF_CALL_OUT_OF_PLACE: entry<{ name: string }>(
    500,
    (d) =>
      `\`${d.name}\` was called inside a step, or after awaiting something that is not a call of ctx: a replay would not find it`,
    'Call ctx from `execute` itself, and put whatever else it awaits into ctx.step or ctx.sideEffect.',
  ),
  HF_STATE_WRITE_IN_STEP: entry<{ property: string }>(
    409,
    (d) =>
      `the state (\`${d.property}\`) was written inside a step, or after awaiting something that is not a call of ctx`,
    'Return the value from the step and write it to the state in `execute`: a replay repeats only that.',
  ),
  HF_MUST_NOT_BE_ASYNC: entry<{ what: string }>(
    500,
    (d) => `${d.what} returned a promise`,
    'Make it synchronous and retry the process. Call the outside world in a step: what a promise decides later is not on record.',
  ),
  HF_REDUCER_THREW: entry<{ response: string; problem: string }>(
    500,
    (d) => `the reducer of the response \`${d.response}\` threw: ${d.problem}`,
    'Correct `apply` in the definition and retry the process: the same response is applied again. A reducer should not throw.',
  ),
  HF_CONDITION_THREW: entry<{ wait: string; problem: string }>(
    500,
    (d) => `the condition of the wait \`${d.wait}\` threw: ${d.problem}`,
    'Correct the condition and retry the process. It should only read the state, also where a value is not there yet.',
  ),
  HF_CONDITION_UNEVALUABLE: entry<{ step: string; problem: string; marked: string }>(
    422,
    (d) => `condition \`${d.step}\` cannot be evaluated: ${d.problem}\n${d.marked}`,
    'Give the step an input that has the fields of the condition, or change the condition in a new version.',
  ),
  HF_TARGET_TIMEOUT: entry<{ target: string; limit: string }>(
    504,
    (d) => `the target ${d.target} did not answer within ${d.limit}`,
    'The items are tried again under the same execution ids. Look at the target, or raise `callTimeout`.',
  ),
  HF_TARGET_INVALID_RESULT: entry<{ target: string; problem: string }>(
    502,
    (d) => `the target ${d.target} ${d.problem}`,
    'Correct the target: it must return one outcome for each item, in their order.',
  ),
}
