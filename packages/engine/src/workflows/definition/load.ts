// Reads a workflow definition from JSON: a file of a user, or the form in which it is stored. It checks each field and
// returns the same structure that the builder makes. Stored definitions of older releases must stay readable.

import { HoldfastError } from '../../kernel/errors.js'
import { retryAsWritten } from '../../kernel/retry/retry-option.js'
import { checkMaxAttempts, normalizeRetryPolicy, type RetryPolicy } from '../../kernel/retry/retry-policy.js'
import { describe } from '../../kernel/validation/describe.js'
import { checkOptions, choiceOption } from '../../kernel/validation/options.js'
import { checkSteps } from './check.js'
import type { CompensationDefinition, StepDefinition, StepType, WorkflowDefinition } from './definition.js'
import { nameProblem, workflowTypeProblem } from './names.js'
import {
  callOptionNames,
  checkCall,
  checkCompensation,
  checkMetadata,
  checkVersion,
  checkWorkflowOptions,
  compensationOptionNames,
} from './settings.js'

const stepTypes = ['task', 'human', 'condition', 'fork', 'parallel', 'join', 'save_point'] as const satisfies StepType[]

/**
 * A workflow from a file: JSON text, or what was parsed from it. Accepts what `WorkflowDefinition` describes, and
 * everything that `build` made; refuses the rest with the path and the reason, or with the step where the graph is wrong.
 *
 * @example
 * const Order = loadWorkflow(await readFile('order.json', 'utf8'))
 */
export function loadWorkflow(json: unknown): WorkflowDefinition {
  const file = record('$', typeof json === 'string' ? parse(json) : json)
  const given = checkOptions('workflow file $', file, [
    'domain',
    'type',
    'name',
    'version',
    'dlq',
    'retry',
    'lease',
    'steps',
  ])
  const domain = named('$.domain', given.domain, nameProblem)
  const type = named('$.type', given.type, workflowTypeProblem)
  const name = `${domain}/${type}`
  // What `build` has made has it; a file need not.
  if (given.name !== undefined && given.name !== name) throw refuse('$.name', `must be left out, or be ${name}`)
  const { dlq, maxAttempts, retry, lease } = options(given)
  const defaults = { maxAttempts, ...(retry === undefined ? {} : { retry }) }
  const steps = list('$.steps', given.steps).map((step, index) => readStep(`$.steps[${index}]`, step, defaults))
  return {
    domain,
    type,
    name,
    version: checkVersion('workflow file $', given.version),
    dlq,
    ...(lease === undefined ? {} : { lease }),
    steps: checkSteps(name, steps),
  }
}

function options({ dlq, retry, lease }: { dlq?: unknown; retry?: unknown; lease?: unknown }) {
  return checkWorkflowOptions('workflow file $', { dlq, retry, lease })
}

/** A call as a user writes it. What `build` has made and what is stored has the number of calls beside the delays. */
function asWritten(
  path: string,
  { maxAttempts, ...call }: { readonly maxAttempts?: unknown; readonly retry?: unknown },
) {
  if (maxAttempts === undefined) return call
  const { retry } = call
  if (typeof retry === 'object' && retry !== null && 'kind' in retry) {
    const where = `workflow file ${path}`
    return {
      ...call,
      retry: retryAsWritten(checkMaxAttempts(where, maxAttempts), normalizeRetryPolicy(retry, where)),
    }
  }
  throw refuse(`${path}.maxAttempts`, 'belongs in `retry`: write "retry": { "maxAttempts": 3 }')
}

function readStep(
  path: string,
  json: unknown,
  defaults: { readonly maxAttempts: number; readonly retry?: RetryPolicy },
): StepDefinition {
  const step = record(path, json)
  const name = text(`${path}.name`, field(step, 'name'))
  const next = optionalText(`${path}.next`, field(step, 'next'))
  const links = next === undefined ? {} : { next }
  const type = choiceOption(`workflow file ${path}`, 'type', field(step, 'type'), stepTypes)
  const only = <Name extends string>(...names: Name[]) =>
    checkOptions(`workflow file ${path}`, step, [...common, ...names])
  switch (type) {
    case 'task': {
      const {
        handler,
        onFailure,
        name: _n,
        type: _t,
        next: _x,
        ...call
      } = only('handler', 'onFailure', 'maxAttempts', ...callOptionNames)
      const settings = checkCall(`workflow file ${path}`, text(`${path}.handler`, handler), asWritten(path, call), {
        ...defaults,
        priority: 50,
      })
      return { name, type, ...settings, ...compensation(path, onFailure, settings.priority), ...links }
    }
    case 'human': {
      const given = only('metadata', 'onFailure')
      const metadata = checkMetadata(`workflow file ${path}`, given.metadata)
      return { name, type, ...metadata, ...compensation(path, given.onFailure, 50), ...links }
    }
    case 'condition': {
      const given = only('expression', 'else')
      const otherwise = optionalText(`${path}.else`, given.else)
      const expression = text(`${path}.expression`, given.expression)
      return { name, type, expression, ...(otherwise === undefined ? {} : { else: otherwise }), ...links }
    }
    case 'fork':
    case 'parallel': {
      const branches = list(`${path}.branches`, only('branches').branches)
      return { name, type, branches: branches.map((begin, at) => text(`${path}.branches[${at}]`, begin)), ...links }
    }
    case 'join': {
      const strategy = choiceOption(`workflow file ${path}`, 'strategy', only('strategy').strategy, ['all', 'any'])
      return { name, type, strategy, ...links }
    }
    case 'save_point':
      only()
      return { name, type, ...links }
  }
}

const common = ['name', 'type', 'next'] as const

function compensation(path: string, json: unknown, priority: number): { onFailure?: CompensationDefinition } {
  if (json === undefined) return {}
  const at = `${path}.onFailure`
  const { name, handler, ...call } = checkOptions(`workflow file ${at}`, record(at, json), [
    'name',
    'handler',
    'maxAttempts',
    ...compensationOptionNames,
  ])
  const named = { name: text(`${at}.name`, name), handler: text(`${at}.handler`, handler), priority }
  return { onFailure: checkCompensation(`workflow file ${at}`, named, asWritten(at, call)) }
}

function named(path: string, value: unknown, problemIn: (value: unknown) => string | undefined): string {
  const problem = problemIn(value)
  if (typeof value !== 'string' || problem !== undefined) throw refuse(path, `is no name: ${problem}`)
  return value
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch (cause) {
    throw refuse('$', `is not JSON: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

function record(path: string, value: unknown): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw refuse(path, `must be an object, not ${describe(value)}`)
}

function list(path: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw refuse(path, `must be a list, not ${describe(value)}`)
}

function text(path: string, value: unknown): string {
  if (typeof value === 'string') return value
  throw refuse(path, `must be a text, not ${describe(value)}`)
}

const optionalText = (path: string, value: unknown): string | undefined =>
  value === undefined ? undefined : text(path, value)

const field = (value: object, name: string): unknown =>
  Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined

function refuse(path: string, problem: string, options?: ErrorOptions): HoldfastError<'HF_INVALID_WORKFLOW_FILE'> {
  return new HoldfastError('HF_INVALID_WORKFLOW_FILE', { path, problem }, options)
}
