import { paymentCommands } from './commands.js'
import type { ModelParts } from './course.js'
import { handlePaymentCommands } from './handlers.js'
import { paymentManager } from './payment-manager.js'
import { paymentProcess, scheduledPaymentProcess } from './payment-process.js'

/** Both models of a payment, and the second phase of scheduled ones. */
export function definePayments(parts: ModelParts) {
  const commands = paymentCommands(parts.pace)
  return {
    commands,
    Payment: paymentProcess(parts),
    ScheduledPayment: scheduledPaymentProcess(parts),
    StepPayment: paymentManager(commands, parts.pace),
  }
}

export type Definitions = ReturnType<typeof definePayments>

/** What a worker needs to run them. */
export function registerPayments(definitions: Definitions, parts: ModelParts): void {
  const { hf } = parts
  hf.register(definitions.Payment)
  hf.register(definitions.ScheduledPayment)
  hf.register(definitions.StepPayment)
  handlePaymentCommands(definitions.commands, parts)
}
