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
      name: workflow.name,
      lease: '60s',
    }
    expect(workflowHash(loadWorkflow(shuffled))).toBe(workflowHash(workflow))
    expect(canonicalWorkflow(workflow)).toMatch(/^\{"dlq":false,"lease":60000,"name":"order","steps":\[\{"delay":0,/)
  })

  it('has another hash when anything is different', () => {
    const make = (priority: number, next: 'b' | 'c') =>
      workflowHash(defineWorkflow('d', 1).step('a', 'A', { priority }).step(next, 'B').build())
    expect(new Set([make(50, 'b'), make(51, 'b'), make(50, 'c')]).size).toBe(3)
  })

  it('is stored, so its hash must never change', () => {
    expect(workflowHash(order())).toMatchInlineSnapshot(
      `"42e9e3c19b4af55de4c5639db6ac8c123459f65c61155547ab59482a884ce506"`,
    )
  })

  it.each([
    ['order', { name: 'order' }],
    ['order-v2', { name: 'order', version: 2 }],
    ['order-v12-v3', { name: 'order-v12', version: 3 }],
    ['order-v0', { name: 'order-v0' }],
    ['-v1', { name: '-v1' }],
  ])('is started as %s', (reference, expected) => {
    expect(workflowReference(reference)).toEqual(expected)
  })
})
