export type { WorkflowClient, WorkflowReference, WorkflowStartOptions, WorkflowToStart } from './client.js'
export type { InquireContext, StepContext, StepHandler, StepInquire } from './context.js'
export type { HumanChoice } from './decide/instance-event.js'
export { defineWorkflow, inputSchemaOf, type WorkflowBranch, type WorkflowBuilder } from './define.js'
export { ofType } from './definition/declared.js'
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
export type { WorkflowEngine } from './engine.js'
export { StartedWorkflow, WorkflowHandle } from './handle.js'
export type { HookedStep, HookedWorkflow, WorkflowHooks } from './hooks.js'
export type { CleanUpOptions, WorkflowMaintenance, WorkflowSettings } from './maintenance.js'
export { workflowModel } from './model.js'
export type { CompleteOptions, RetryOptions } from './operations.js'
export type { RecordedDecision, WaitingDecision } from './queries/find-decisions.js'
export type { KnownWorkflow } from './queries/find-definitions.js'
export type { WorkflowEventRecord } from './queries/find-events.js'
export type { WorkflowRecord } from './queries/find-instances.js'
export type { WorkflowStepRecord } from './queries/find-steps.js'
export { type HandleSteps, handleSteps, type StepHandlerOptions } from './registering.js'
export { renderMermaid } from './render/mermaid.js'
export type { ShownInstance } from './render/shown.js'
export { renderText } from './render/text.js'
export type { EventType, InstanceEnd, InstanceStatus, StepStatus } from './states.js'
export type { Call, Joined, With, Workflow, WorkflowTypes } from './typed.js'
export type { WorkflowListFilter, Workflows } from './workflows.js'
