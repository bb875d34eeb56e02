import { defineWorkflow } from './define.js'

/** A workflow that has a bit of everything. */
export const order = () =>
  defineWorkflow('test', 'order', { version: 3, lease: '1m' })
    .step('charge', 'ChargeCard', { retry: { maxAttempts: 5, delay: '5s', factor: 1 }, priority: 90 })
    .onFailure('refund', 'RefundCard', { timeout: '10s' })
    .savePoint('paid')
    .fork(
      'fulfil',
      (b) =>
        b.condition('digital', '{{ eq .kind "digital" }}', (e) => e.step('ship', 'ShipOrder')).then('mail', 'Mail'),
      (b) =>
        b.parallel(
          'papers',
          (p) => p.step('invoice', 'Invoice'),
          (p) => p.step('customs', 'Customs'),
        ),
    )
    .join('fulfilled', 'any')
    .waitHumanConfirm('approve', { metadata: { role: 'manager' } })
    .onFailure('unapprove', 'Unapprove')
    .build()
