import { defineWorkflow } from 'holdfast'

/** What both services agree on: names, no code of either. */
export const Purchase = defineWorkflow('shop', 'purchase')
  .step('charge', 'billing.Charge')
  .onFailure('refund', 'billing.Refund')
  .step('ship', 'warehouse.Ship')
  .build()
