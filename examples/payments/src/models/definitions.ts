import { paymentCommands } from './commands.js'
import type { ModelParts } from './course.js'
import { handlePaymentCommands } from './handlers.js'
import { paymentManager } from './payment-manager.js'
import { paymentProcess, scheduledPaymentProcess } from './payment-process.js'
import { paymentWindow } from './payment-window.js'

/** Both models of a payment, the second phase of scheduled ones, and the dispatch that releases them. */
export function definePayments(parts: ModelParts) {
  const commands = paymentCommands(parts.pace)
  const ScheduledPayment = scheduledPaymentProcess(parts)
  return {
    commands,
    Payment: paymentProcess(parts),
    ScheduledPayment,
    PaymentWindow: paymentWindow(ScheduledPayment, parts.pace),
    StepPayment: paymentManager(commands, parts.pace),
  }
}

export type Definitions = ReturnType<typeof definePayments>

/** What a worker needs to run them. */
export function registerPayments(definitions: Definitions, parts: ModelParts): void {
  const { hf } = parts
  hf.register(definitions.Payment)
  hf.register(definitions.ScheduledPayment)
  hf.register(definitions.PaymentWindow)
  hf.register(definitions.StepPayment)
  handlePaymentCommands(definitions.commands, parts)
}
