import { defineWorkflow } from 'holdfast'

/** What both services share: names, and no code. */
export const Purchase = defineWorkflow('shop', 'purchase')
  .step('charge', 'billing.Charge')
  .onFailure('refund', 'billing.Refund')
  .step('ship', 'warehouse.Ship')
  .build()
