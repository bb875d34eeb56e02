import type { FaultTestOptions } from '@holdfast/testing'
import { generatedCommands } from './commands.js'
import { generatedProcesses } from './processes.js'
import { generatedWorkflows } from './workflows.js'

// The world is each model's own, and nobody outside looks into it.
type AnyModel = Omit<FaultTestOptions<never>, 'seeds'>

/** Everything that programs are generated for. */
export const models = {
  processes: generatedProcesses as unknown as () => AnyModel,
  workflows: generatedWorkflows as unknown as () => AnyModel,
  commands: generatedCommands as unknown as () => AnyModel,
} as const
