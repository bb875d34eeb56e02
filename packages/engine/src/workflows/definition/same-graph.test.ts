import { describe, expect, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { order } from '../order.fixture.js'
import { canonicalWorkflow, workflowHash } from './canonical.js'
import { loadWorkflow } from './load.js'
import { workflowReference } from './names.js'

describe('W-03 the same graph', () => {
  it('has the same hash, in whatever order its file has it', () => {
    const workflow = order()
    const [first, ...others] = workflow.steps
    const shuffled = {
      steps: [first, ...others.toReversed()].map((step) => Object.fromEntries(Object.entries(step ?? {}).toReversed())),
      version: workflow.version,
      domain: workflow.domain,
      type: workflow.type,
      lease: '60s',
    }
    expect(workflowHash(loadWorkflow(shuffled))).toBe(workflowHash(workflow))
    expect(canonicalWorkflow(workflow)).toMatch(/^\{"dlq":false,"domain":"test","lease":60000,"steps":\[\{"delay":0,/)
  })

  it('has another hash when anything is different', () => {
    const make = (priority: number, next: 'b' | 'c') =>
      workflowHash(defineWorkflow('test', 'd').step('a', 'A', { priority }).step(next, 'B').build())
    expect(new Set([make(50, 'b'), make(51, 'b'), make(50, 'c')]).size).toBe(3)
  })

  it('is stored, so its hash must never change; in the domain default it is that of the time before domains', () => {
    expect(workflowHash({ ...order(), domain: 'default', name: 'default/order' })).toMatchInlineSnapshot(
      `"42e9e3c19b4af55de4c5639db6ac8c123459f65c61155547ab59482a884ce506"`,
    )
    expect(workflowHash(order())).toMatchInlineSnapshot(
      `"8bb4cbe93344d8157df380920da9a1a6c26406c46ee37007fdd096d4f2c28623"`,
    )
  })

  it.each([
    ['shop/order', { name: 'shop/order' }],
    ['shop/order-v2', { name: 'shop/order', version: 2 }],
    ['shop/order-v12-v3', { name: 'shop/order-v12', version: 3 }],
    ['shop/order-v0', { name: 'shop/order-v0' }],
    ['-v1', { name: '-v1' }],
  ])('is started as %s', (reference, expected) => {
    expect(workflowReference(reference)).toEqual(expected)
  })
})
