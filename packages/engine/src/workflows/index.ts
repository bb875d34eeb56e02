export { type Condition, type ConditionSubject, parseCondition } from './condition/condition.js'
export { decide } from './decide/decide.js'
export {
  applyDecision,
  type DeadLetter,
  type Decision,
  type HumanDecision,
  type QueueItem,
  type QueueRef,
  type WorkflowEvent,
} from './decide/decision.js'
export type { By, HumanVerdict, Occurrence } from './decide/occurrence.js'
export { type Payloads, plainPayloads } from './decide/payloads.js'
export type { CallKind, InstanceState, Payload, StepState } from './decide/state.js'
export type { Surroundings } from './decide/transition.js'
export { defineWorkflow, type Workflow, type WorkflowBuilder } from './define.js'
export { canonicalWorkflow, workflowHash } from './definition/canonical.js'
export {
  type CallSettings,
  type CompensationDefinition,
  compensationOf,
  handlersOf,
  type JoinStrategy,
  type Metadata,
  type StepDefinition,
  type StepType,
  type WorkflowDefinition,
} from './definition/definition.js'
export { loadWorkflow } from './definition/load.js'
export { workflowReference } from './definition/names.js'
export type { StepOptions, WorkflowOptions } from './definition/settings.js'
export { renderMermaid } from './render/mermaid.js'
export type { ShownInstance } from './render/shown.js'
export { renderText } from './render/text.js'
export {
  type EventType,
  eventTypes,
  type InstanceEnd,
  type InstanceStatus,
  instanceHasEnded,
  instanceStatuses,
  type StepStatus,
  stepStatuses,
} from './states.js'
