/**
 * The one registry of errors: every code that Holdfast can throw, its sentence, its HTTP status and what to do next.
 * The page docs/reference/errors.md is made from it, and a test keeps the two the same.
 */
interface ErrorEntry<Details> {
  readonly status: number
  readonly message: (details: Details) => string
  readonly next: string
}

const entry = <Details extends object>(
  status: number,
  message: (details: Details) => string,
  next: string,
): ErrorEntry<Details> => ({ status, message, next })

export const errorRegistry = {
  HF_INVALID_OPTION: entry<{ where: string; option: string; problem: string }>(
    400,
    (d) => `${d.where}: option \`${d.option}\` ${d.problem}`,
    'Correct the option; the reference page of the function lists what it accepts.',
  ),
  HF_INVALID_ARGUMENT: entry<{ operation: string; problem: string }>(
    400,
    (d) => `${d.operation} cannot use what it was given: ${d.problem}`,
    'Compare the arguments with the types of the function; `cause` shows where it failed. If they are right, report it as a fault of Holdfast.',
  ),
  HF_UNKNOWN_OPTION: entry<{ where: string; option: string; nearest?: string }>(
    400,
    (d) => `${d.where}: unknown option \`${d.option}\`${d.nearest ? `; did you mean \`${d.nearest}\`?` : ''}`,
    'Remove the option or correct its name.',
  ),
  HF_INVALID_DURATION: entry<{ value: string; at?: string; problem?: string }>(
    400,
    (d) => `${d.at ? `${d.at}: ` : ''}${d.value} is not a duration${d.problem ? `: ${d.problem}` : ''}`,
    "Give milliseconds as a number, a text such as '5s', '10m' or '2h', or ISO-8601 such as 'PT1H'.",
  ),
  HF_INVALID_DATA: entry<{
    where: string
    path: string
    problem: string
    issues?: readonly { path: string; problem: string }[]
  }>(
    422,
    (d) => `${d.where}: ${d.path} ${d.problem}`,
    'Send data that fits the schema of the definition; nothing was written.',
  ),
  HF_NOT_ENCODABLE: entry<{ path: string; problem: string }>(
    422,
    (d) => `${d.path} cannot be stored: ${d.problem}`,
    'Convert the value to JSON, or register its type with the codec; nothing was written.',
  ),
  HF_NOT_DECODABLE: entry<{ path: string; problem: string }>(
    500,
    (d) => `${d.path} cannot be read back: ${d.problem}`,
    'Register every type that was used to write the value with the codec that reads it.',
  ),
  HF_TOO_LARGE: entry<{ bytes: number; limit: number; path?: string; atLeast?: boolean }>(
    413,
    (d) =>
      `${d.path ?? 'the value'} is ${d.atLeast ? 'at least ' : ''}${d.bytes} bytes as JSON, over the limit of ${d.limit}`,
    'Store the large part elsewhere and send a reference to it, or raise `maxPayloadBytes`.',
  ),
  HF_DATABASE_UNREACHABLE: entry<{ target: string; problem: string }>(
    503,
    (d) => `cannot reach PostgreSQL at ${d.target}: ${d.problem}`,
    'Check that the server runs and that the connection string (host, port, user, database) is right.',
  ),
  HF_DATABASE_UNAVAILABLE: entry<{ operation: string; waited: string; problem: string }>(
    503,
    (d) => `${d.operation} got no answer from PostgreSQL within ${d.waited}: ${d.problem}`,
    'The outcome may be unknown. Repeat the call with the same id: it is done once.',
  ),
  HF_OUTCOME_UNKNOWN: entry<{ operation: string; problem: string }>(
    503,
    (d) =>
      `the connection to PostgreSQL was lost during ${d.operation}; it may or may not have been applied: ${d.problem}`,
    'Repeat the call with the same id: it is done once. After an operation of an operator, look first.',
  ),
  HF_TRANSACTION_FAILED: entry<object>(
    500,
    () => 'the transaction was rolled back: one of its statements failed and the error was not passed on',
    'Let the error of a failed statement reach the end of the transaction; nothing was written.',
  ),
  HF_TRANSACTION_CONTROL: entry<{ statement: string; problem: string }>(
    500,
    (d) => `\`${d.statement}\` ${d.problem}; it was not run, and the transaction is rolled back`,
    'Leave begin, commit and rollback to Holdfast: return to commit, throw to roll back, use savepoints within. Use `set local` for settings.',
  ),
  HF_TRANSACTION_ENDED: entry<{ problem: string }>(
    500,
    (d) => `a statement of the user's code ${d.problem}`,
    'What the code wrote up to there may be committed, and nothing was recorded. Look at your tables, remove the statement, then retry.',
  ),
  HF_NOT_IN_TRANSACTION: entry<object>(
    400,
    () => 'the client given as `transaction` has no transaction open',
    'Run `begin` on the client first, or leave `transaction` out; nothing was written.',
  ),
  HF_BUSY: entry<{ operation: string; waited: string; problem: string }>(
    409,
    (d) => `${d.operation} was given up after ${d.waited}: ${d.problem}`,
    'Nothing was changed. Try again when the other transaction has ended; pg_stat_activity shows who holds the row.',
  ),
  HF_DATABASE_TOO_OLD: entry<{ version: string }>(
    500,
    (d) => `PostgreSQL ${d.version} is too old`,
    'Use PostgreSQL 14 or newer.',
  ),
  HF_NOT_PERMITTED: entry<{ operation: string; problem: string; remedy: string }>(
    403,
    (d) => `PostgreSQL does not permit to ${d.operation}: ${d.problem}. ${d.remedy}`,
    'Have an administrator grant the right or run the step once; nothing was changed.',
  ),
  HF_SCHEMA_TOO_NEW: entry<{ schema: string; found: number; known: number }>(
    500,
    (d) =>
      `schema "${d.schema}" is of release ${d.found}; this version of holdfast is of release ${d.known} and runs on releases up to ${d.known + 1}`,
    'Upgrade the holdfast package of this service, or point it at the schema it belongs to.',
  ),
  HF_SCHEMA_TOO_OLD: entry<{ schema: string; missing: string }>(
    500,
    (d) => `schema "${d.schema}" lacks ${d.missing}`,
    'Run the migrations with a role that may (open holdfast once with `migrate: true`).',
  ),
  HF_SCHEMA_DAMAGED: entry<{ schema: string; problem: string }>(
    500,
    (d) => `schema "${d.schema}" lacks something that this version of holdfast made: ${d.problem}`,
    'The schema was renamed, dropped, or restored in part. Restore it under its old name, or open holdfast again to migrate it.',
  ),
  HF_DATABASE_ERROR: entry<{ operation: string; state: string; problem: string }>(
    500,
    (d) => `PostgreSQL refused ${d.operation} (SQLSTATE ${d.state}): ${d.problem}`,
    'Nothing was changed by this call. The SQLSTATE says what PostgreSQL objects to; `cause` is its own error.',
  ),
  HF_MIGRATION_CHANGED: entry<{ file: string; problem: string }>(
    500,
    (d) => `${d.file} ${d.problem}`,
    'A landed migration is never edited, and a changed function file raises its revision: add a new file or raise the number.',
  ),
  HF_MIGRATION_FAILED: entry<{ file: string; problem: string }>(
    500,
    (d) => `${d.file} failed: ${d.problem}`,
    'Correct the cause named in the message and start again: what was applied is kept, what failed was rolled back.',
  ),
  HF_LEASE_LOST: entry<{ id: string; epoch: string }>(
    409,
    (d) => `the lease ${d.epoch} of ${d.id} is lost: another worker has it, or it has ended`,
    'Nothing was written and nothing needs doing: the worker with the newer lease continues.',
  ),
  HF_STOPPED: entry<{ what: string }>(
    503,
    (d) => `${d.what} is stopped`,
    'Open a new instance; work that was accepted before is safe in the database.',
  ),
  HF_INVALID_ACTOR: entry<{ operation: string; missing: 'actor' | 'reason' }>(
    400,
    (d) => `${d.operation} needs ${d.missing === 'actor' ? 'an actor' : 'a reason'}`,
    'Say who acts and why: every write of an operator is audited with both.',
  ),
  HF_INVALID_ID: entry<{ where: string; value: string }>(
    400,
    (d) => `${d.where}: ${d.value} is not an id`,
    'Give a UUID, or leave the id out and one is made. A name of your own is a `key`.',
  ),
  HF_INVALID_KEY: entry<{ where: string; problem: string }>(
    400,
    (d) => `${d.where}: the key ${d.problem}`,
    'Give a text of 1 to 512 characters that is not a UUID, such as `PAY-123`.',
  ),
  HF_QUEUE_UNAVAILABLE: entry<{ problem: string }>(
    500,
    (d) => `the message queue PGMQ cannot be used: ${d.problem}`,
    'Open holdfast once with a role that may install PGMQ; a schema `pgmq` that is not PGMQ has to be renamed or dropped.',
  ),
  HF_QUEUE_TOO_OLD: entry<{ version: string; needed: string }>(
    500,
    (d) => `the extension pgmq of this database is of version ${d.version}; ${d.needed} is the oldest that works`,
    'Install a newer PGMQ on the server and run `alter extension pgmq update`.',
  ),
  HF_INVALID_QUEUE_NAME: entry<{ name: string; problem: string }>(
    400,
    (d) => `${d.name} cannot be the name of a queue: ${d.problem}`,
    'Use lower-case letters, digits, `_` and `-`, 47 characters at most with what Holdfast adds; nothing was written.',
  ),
  HF_QUEUE_NOT_FOUND: entry<{ queue: string }>(
    404,
    (d) => `there is no queue \`${d.queue}\``,
    'Create the queue or correct its name; sending to it outside a transaction makes it.',
  ),
  HF_DUPLICATE_COMMAND: entry<{ id: string; domain: string; type: string }>(
    409,
    (d) => `command ${d.id} exists in domain ${d.domain}`,
    "Nothing was sent. If the repetition is intended, send with a `key`, or with `ifExists: 'ignore'`.",
  ),
  HF_DUPLICATE_DEFINITION: entry<{ model: string; domain?: string; type: string }>(
    409,
    (d) => `${d.domain === undefined ? '' : `${d.domain}/`}${d.type} (${d.model}) is registered already`,
    'Register each definition and each handler once per program. Two versions side by side are two types; a changed process raises its `version`.',
  ),
  HF_BATCH_CLOSED: entry<{ batchId: string; commandId: string }>(
    409,
    (d) => `batch ${d.batchId} does not exist or takes no more items, so ${d.commandId} is not in it`,
    'Nothing was written. Add it before the batch is sealed, or to another batch.',
  ),
  HF_UNKNOWN_SUBJECT: entry<{ kind: string; name: string }>(
    404,
    (d) => `no ${d.kind} \`${d.name}\` is registered here or known to the database, so it cannot be paused`,
    'Correct the name (a definition is named `domain/Type`, a workflow and a handler by its own name), or register it first.',
  ),
  HF_UNKNOWN_BATCH: entry<{ batchId: string }>(
    404,
    (d) => `batch ${d.batchId} does not exist`,
    'Check the id of the batch.',
  ),
  HF_CALL_OUTCOME_UNKNOWN: entry<{ what: string; id: string }>(
    409,
    (d) =>
      `${d.what} ${d.id} cannot simply be retried: it must not be called twice, nobody knows whether its last call had its effect, and its handler cannot inquire`,
    'Find out whether it had its effect. If it had, complete it with its result; if not, retry it with `notDone: true`.',
  ),
  HF_WRONG_STATUS: entry<{ what: string; id: string; status: string; operation: string }>(
    409,
    (d) => `${d.what} ${d.id} cannot be ${d.operation}: it is ${d.status}`,
    'Read it again: another person may have acted on it, or it continued by itself. Nothing was changed.',
  ),
  HF_NOT_IN_TROUBLE: entry<{ model: string; domain: string; type: string; id: string }>(
    409,
    (d) => `${d.id} of ${d.model} ${d.domain}/${d.type} does not need a person`,
    'Nothing was changed. Another operator has acted on it, it went on by itself, or the id is wrong; `hf.trouble.list` shows what needs a person.',
  ),
  HF_UNKNOWN_TROUBLE: entry<{ id: string }>(
    404,
    (d) => `nothing with the id ${d.id} needs a person`,
    'Nothing was changed. Another operator has acted on it, it went on by itself, or the id is wrong; `hf.trouble.list` shows what needs a person.',
  ),
  HF_AMBIGUOUS_TROUBLE: entry<{ id: string; found: string }>(
    409,
    (d) => `the id ${d.id} is that of several pieces of work that need a person: ${d.found}`,
    'Nothing was changed. Pass records of `hf.trouble.list`, or a filter that has only one of them.',
  ),
  HF_CANNOT_SKIP: entry<{ what: string; id: string; problem: string }>(
    409,
    (d) => `${d.what} ${d.id} has no failed step that can be skipped: ${d.problem}`,
    'Nothing was changed. Complete it with its result, or cancel it.',
  ),
  HF_RESULT_TIMEOUT: entry<{ what: string; id: string; waited: string; status: string; why: string }>(
    504,
    (d) => `${d.what} ${d.id} did not end within ${d.waited}: it is ${d.status}, ${d.why}`,
    'Do what the message says; it goes on as soon as it can. Ask again, or be told by a reply.',
  ),
  HF_NEEDS_ATTENTION: entry<{ what: string; id: string; code: string; step: string; message: string }>(
    409,
    (d) => `${d.what} ${d.id} needs a person${d.step ? ` at ${d.step}` : ''}: ${d.code}: ${d.message}`,
    'It has not ended. Remove the cause, then retry, complete or cancel it; after OUTCOME_UNKNOWN find out whether the call was done, and say `done` or `notDone`. Its result can be awaited again.',
  ),
  HF_NOT_FOUND: entry<{ model: string; domain?: string; type?: string; id: string }>(
    404,
    (d) => {
      const definition = [d.domain, d.type].filter((part) => part !== undefined).join('/')
      return `there is no ${d.id}${definition === '' ? '' : ` of ${definition}`} in ${d.model}`
    },
    'Check the id or key, and the definition it is looked up by. Work that ended long ago may have been cleaned up.',
  ),
  HF_NOT_COMPLETED: entry<{
    model: string
    domain: string
    type: string
    id: string
    status: string
    code: string
    message: string
  }>(
    409,
    (d) => `${d.id} of ${d.domain}/${d.type} ended ${d.status}${d.code ? ` with ${d.code}: ${d.message}` : ''}`,
    'There is no result. Its `history()` says what happened.',
  ),
  HF_PROCESS_OF_OTHER_TYPE: entry<{ id: string; process: string; actual: string }>(
    409,
    (d) => `process ${d.id} is a ${d.actual}, not a ${d.process}`,
    'Use the definition that the process was started with; nothing was written.',
  ),
  HF_DUPLICATE_KEY: entry<{ process: string; key: string }>(
    409,
    ({ process, key }) => `a ${process} with the key ${key} is there already, and is not this process's child`,
    'Give each child a key of its own, or none: its id is derived from its parent.',
  ),
  HF_UNKNOWN_RESPONSE: entry<{ process: string; response: string }>(
    404,
    (d) => `${d.process} has no response \`${d.response}\``,
    'Use a name that the definition lists in `responses`; nothing was written.',
  ),
  HF_PROCESS_NOT_COMPLETED: entry<{ id: string; status: string; code: string; message: string }>(
    409,
    (d) => `process ${d.id} ended ${d.status}${d.code ? ` with ${d.code}: ${d.message}` : ''}`,
    'There is no result. The timeline of the process says what happened.',
  ),
  HF_STEP_NAME_REUSED: entry<{ name: string; first: string; second: string }>(
    409,
    (d) => `the name \`${d.name}\` is used for a ${d.first} and for a ${d.second}`,
    'Give the two calls different names: the record tells calls apart by them.',
  ),
  HF_CONTINUE_WITH_OPEN_CALLS: entry<{ id: string; calls: string }>(
    409,
    (d) =>
      `process ${d.id} called continueAsNew while ${d.calls} had not ended: its new history would not know of them`,
    'Await these calls before continueAsNew, and deploy; then retry the process.',
  ),
  HF_CONTINUE_WITH_COMPENSATIONS: entry<{ id: string; calls: string }>(
    409,
    (d) =>
      `process ${d.id} called continueAsNew while ${d.calls} could still have to be undone: compensations are not carried over into the new history`,
    'Where what was done stays done, call continueAsNew(state, { keepEffects: true }), and deploy; then retry the process. To undo it, cancel it with compensation.',
  ),
  HF_CALL_OUT_OF_PLACE: entry<{ name: string }>(
    500,
    (d) =>
      `\`${d.name}\` was called inside a step, or after awaiting something that is no call of ctx: a replay would not find it`,
    'Call ctx from `execute` itself, and put whatever else it awaits into ctx.step or ctx.sideEffect.',
  ),
  HF_STATE_WRITE_IN_STEP: entry<{ property: string }>(
    409,
    (d) =>
      `the state (\`${d.property}\`) was written inside a step, or after awaiting something that is no call of ctx`,
    'Return the value from the step and write it to the state in `execute`: a replay repeats only that.',
  ),
  HF_MUST_NOT_BE_ASYNC: entry<{ what: string }>(
    500,
    (d) => `${d.what} returned a promise`,
    'Make it synchronous and retry the process. Call the outside world in a step: what a promise decides later is not on record.',
  ),
  HF_OUTCOME_UNRESOLVED: entry<{ id: string; step: string }>(
    409,
    (d) => `process ${d.id} cannot be retried: nobody knows whether its step \`${d.step}\` has had its effect`,
    'Find out on the other side and say it on the handle of the process: `complete(by, result, { step })` if it had its effect, `retry(by, { notDone: true, step })` if not. Or give the step an `inquire` function, or cancel the process.',
  ),
  HF_NOTHING_TO_RESOLVE: entry<{ id: string; step: string }>(
    409,
    (d) => `process ${d.id} has no failed step ${d.step ? `\`${d.step}\` ` : ''}of unknown outcome`,
    'Look at its timeline: the step may have another name (`pay`, `pay#2`), or another operator has resolved it.',
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
  HF_CANCELLED: entry<{ id: string }>(
    409,
    (d) => `process ${d.id} is cancelled`,
    'End what you are doing; what the call returns is still recorded.',
  ),
  HF_DEADLINE_EXCEEDED: entry<{ id: string }>(
    409,
    (d) => `process ${d.id} is past its deadline`,
    'Retry it with a new deadline, or cancel it.',
  ),
  HF_RATE_LIMITED: entry<{ key: string; maxWait: string; retryAfterMs: number }>(
    429,
    (d) =>
      `rate limit \`${d.key}\` has no slot free within ${d.maxWait}; there is one in that time from ${d.retryAfterMs} ms on`,
    'No slot was taken. Try again after `details.retryAfterMs`, wait for longer (`maxWait`), or raise the limit.',
  ),
  HF_UNKNOWN_RATE_LIMIT: entry<{ key: string }>(
    404,
    (d) => `there is no rate limit \`${d.key}\``,
    'Correct the key, or configure it: `hf.limits.define`, or a row in the table `rate_limit`.',
  ),
  HF_INVALID_WORKFLOW: entry<{ workflow: string; step?: string; problem: string }>(
    400,
    (d) => `workflow ${d.workflow}${d.step === undefined ? '' : `, step \`${d.step}\``}: ${d.problem}`,
    'Correct the definition as the message says; nothing was registered.',
  ),
  HF_INVALID_WORKFLOW_FILE: entry<{ path: string; problem: string }>(
    400,
    (d) => `this is no workflow: ${d.path} ${d.problem}`,
    'Correct the file at the path named; the reference of `loadWorkflow` shows the form.',
  ),
  HF_INVALID_CONDITION: entry<{ problem: string; position: number; marked: string }>(
    400,
    (d) => `malformed condition, at character ${d.position}: ${d.problem}\n${d.marked}`,
    'Correct the expression at the caret; conditions are written as in Go templates, such as {{ gt .amount 100 }}.',
  ),
  HF_CONDITION_UNEVALUABLE: entry<{ step: string; problem: string; marked: string }>(
    422,
    (d) => `condition \`${d.step}\` cannot be answered: ${d.problem}\n${d.marked}`,
    'Give the step an input that has what the condition asks for, or change the condition in a new version.',
  ),
  HF_UNKNOWN_STEP: entry<{ workflow: string; step: string; nearest?: string }>(
    404,
    (d) =>
      `workflow ${d.workflow} has no step \`${d.step}\`${d.nearest === undefined ? '' : `; did you mean \`${d.nearest}\`?`}`,
    'Use a name of the definition; nothing was changed.',
  ),
  HF_WORKFLOW_CHANGED: entry<{ workflow: string; version: number }>(
    409,
    (d) => `workflow ${d.workflow} has another graph under version ${d.version} already`,
    'Raise the version: running instances go on with the graph they were started with.',
  ),
  HF_UNKNOWN_WORKFLOW: entry<{ workflow: string; nearest?: string }>(
    404,
    (d) => `there is no workflow \`${d.workflow}\`${d.nearest === undefined ? '' : `; did you mean \`${d.nearest}\`?`}`,
    'Register it, or start it by its definition once; `name-vN` is one version, `name` the newest.',
  ),
  HF_INSTANCE_HELD: entry<{ id: string }>(
    503,
    (d) => `another transaction has locked a step of workflow instance ${d.id}`,
    'Nothing was changed; the step is tried again.',
  ),
  HF_INSTANCE_OF_OTHER_WORKFLOW: entry<{ id: string; workflow: string; actual: string }>(
    409,
    (d) => `${d.id} is an instance of ${d.actual}, not of ${d.workflow}`,
    'Give every start an id or key of its own.',
  ),
  HF_START_VETOED: entry<{ workflow: string; hook: string; problem: string }>(
    409,
    (d) => `workflow ${d.workflow} was not started: the hook ${d.hook} refused it: ${d.problem}`,
    'Nothing was written. Correct what the hook objects to, or remove the hook.',
  ),
  HF_WORKFLOW_NOT_COMPLETED: entry<{ id: string; status: string; code: string; message: string }>(
    409,
    (d) => `workflow instance ${d.id} ended ${d.status}: ${d.code}: ${d.message}`,
    'Look at its steps and events: `steps()` and `history()` of its handle, `hf.workflow(Order, id)`.',
  ),
  HF_UNKNOWN_DEFINITION: entry<{ model: string; domain: string; type: string }>(
    404,
    (d) => `${d.model} knows no definition ${d.domain}/${d.type}`,
    'Correct the name. A definition is known once a worker has registered it or something was begun with it.',
  ),
  HF_ITEM_CONFLICT: entry<{ model: string; domain: string; type: string; id: string; problem: string }>(
    409,
    (d) => `item ${d.id} of ${d.domain}/${d.type} ${d.problem}`,
    'Nothing was changed. To change an item that is still READY, schedule it with `replace: true` or call `hf.item(…).reschedule`.',
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
} satisfies Record<string, ErrorEntry<never>>

export type ErrorCode = keyof typeof errorRegistry
export type ErrorDetails<Code extends ErrorCode> = Parameters<(typeof errorRegistry)[Code]['message']>[0]

/**
 * Every error that Holdfast throws on purpose. Switch on `code`; show `message` and `next` to people.
 *
 * @example
 * try { await hf.send(BookRisk, request) } catch (error) {
 *   if (error instanceof HoldfastError && error.code === 'HF_INVALID_DATA') return reply(error.status, error.message)
 *   throw error
 * }
 */
export class HoldfastError<Code extends ErrorCode = ErrorCode> extends Error {
  readonly code: Code
  readonly status: number
  readonly details: ErrorDetails<Code>
  /** What the reader of the message can do about it. */
  readonly next: string

  constructor(code: Code, details: ErrorDetails<Code>, options?: ErrorOptions) {
    // The registry is a union of entries; the pair (code, details) is right by the signature above.
    const { message, status, next } = errorRegistry[code] as unknown as ErrorEntry<ErrorDetails<Code>>
    super(message(details), options)
    this.name = 'HoldfastError'
    this.code = code
    this.status = status
    this.details = details
    this.next = next
  }
}
