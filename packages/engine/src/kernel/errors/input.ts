import { didYouMean, entry } from './entry.js'

/** What a caller gave and that cannot be used: options, data, names, definitions. */
export const inputErrors = {
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
    (d) => `${d.where}: unknown option \`${d.option}\`${didYouMean(d.nearest)}`,
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
  HF_INVALID_QUEUE_NAME: entry<{ name: string; problem: string }>(
    400,
    (d) => `${d.name} cannot be the name of a queue: ${d.problem}`,
    'Use lower-case letters, digits, `_` and `-`, 47 characters at most with what Holdfast adds; nothing was written.',
  ),
  HF_INVALID_WORKFLOW: entry<{ workflow: string; step?: string; problem: string }>(
    400,
    (d) => `workflow ${d.workflow}${d.step === undefined ? '' : `, step \`${d.step}\``}: ${d.problem}`,
    'Correct the definition as the message says; nothing was registered.',
  ),
  HF_INVALID_WORKFLOW_FILE: entry<{ path: string; problem: string }>(
    400,
    (d) => `this is not a workflow: ${d.path} ${d.problem}`,
    'Correct the file at the path named; the reference of `loadWorkflow` shows the form.',
  ),
  HF_INVALID_CONDITION: entry<{ problem: string; position: number; marked: string }>(
    400,
    (d) => `malformed condition, at character ${d.position}: ${d.problem}\n${d.marked}`,
    'Correct the expression at the caret; conditions are written as in Go templates, such as {{ gt .amount 100 }}.',
  ),
  HF_DUPLICATE_DEFINITION: entry<{ model: string; domain?: string; type: string }>(
    409,
    (d) => `${d.domain === undefined ? '' : `${d.domain}/`}${d.type} (${d.model}) is registered already`,
    'Register each definition and each handler once per program. Two versions side by side are two types; a changed process raises its `version`.',
  ),
  HF_UNKNOWN_SUBJECT: entry<{ kind: string; name: string }>(
    404,
    (d) => `no ${d.kind} \`${d.name}\` is registered here or known to the database, so it cannot be paused`,
    'Correct the name (a definition is named `domain/Type`, a workflow and a handler by its own name), or register it first.',
  ),
  HF_UNKNOWN_RATE_LIMIT: entry<{ key: string }>(
    404,
    (d) => `there is no rate limit \`${d.key}\``,
    'Correct the key, or configure it: `hf.limits.define`, or a row in the table `rate_limit`.',
  ),
  HF_STOPPED: entry<{ what: string }>(
    503,
    (d) => `${d.what} is stopped`,
    'Open a new instance; work that was accepted before is safe in the database.',
  ),
}
