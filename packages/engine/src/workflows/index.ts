export { createWorkflowBulk } from './bulk.js'
export {
  createWorkflowClient,
  type WorkflowClient,
  type WorkflowReference,
  type WorkflowStartOptions,
  type WorkflowToStart,
} from './client.js'
export type { ConditionFunction, Field, RecordedCondition } from './condition/record.js'
export type { InquireContext, StepContext, StepHandler, StepInquire } from './context.js'
export type { HumanVerdict } from './decide/occurrence.js'
export { defineWorkflow, type WorkflowBranch, type WorkflowBuilder } from './define.js'
export type {
  CallSettings,
  CompensationDefinition,
  JoinStrategy,
  Metadata,
  StepDefinition,
  StepType,
  WorkflowDefinition,
} from './definition/definition.js'
export { handlersOf, isWorkflow } from './definition/definition.js'
export { loadWorkflow } from './definition/load.js'
export type { CompensationOptions, StepOptions, WorkflowOptions } from './definition/settings.js'
export { createDefinitions } from './definitions.js'
export { createWorkflowEngine, type WorkflowEngine } from './engine.js'
export { StartedWorkflow, WorkflowHandle } from './handle.js'
export type { HookedStep, HookedWorkflow, WorkflowHooks } from './hooks.js'
export type { CleanUpOptions, WorkflowMaintenance, WorkflowSettings } from './maintenance.js'
export { workflowModel } from './model.js'
export type { CompleteOptions, RetryOptions } from './operations.js'
export type { RecordedDecision, WaitingDecision } from './queries/find-decisions.js'
export type { WorkflowEventRecord } from './queries/find-events.js'
export type { WorkflowRecord } from './queries/find-instances.js'
export type { WorkflowStepRecord } from './queries/find-steps.js'
export { type HandleSteps, handleSteps, type StepHandlerOptions } from './registering.js'
export { renderMermaid } from './render/mermaid.js'
export type { ShownInstance } from './render/shown.js'
export { renderText } from './render/text.js'
export type { EventType, InstanceEnd, InstanceStatus, StepStatus } from './states.js'
export {
  type Call,
  type CallType,
  type HandlersFor,
  type Joined,
  type OfType,
  ofType,
  type With,
  type Workflow,
  type WorkflowTypes,
} from './typed.js'
export { createWorkflows, type KnownWorkflow, type WorkflowListFilter, type Workflows } from './workflows.js'
