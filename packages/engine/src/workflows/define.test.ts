import { describe, expect, expectTypeOf, it } from 'vitest'
import { defineWorkflow } from './define.js'
import { handlersOf } from './definition/definition.js'
import { order } from './order.fixture.js'

describe('W-01 the builder', () => {
  it('makes plain data, with every default filled in', () => {
    const workflow = order()
    expect(JSON.parse(JSON.stringify(workflow))).toEqual(workflow)
    expect(workflow).toMatchObject({
      domain: 'test',
      type: 'order',
      name: 'test/order',
      version: 3,
      dlq: false,
      lease: 60_000,
    })
    expect(workflow.steps.map(({ name, next }) => [name, next])).toEqual([
      ['charge', 'paid'],
      ['paid', 'fulfil'],
      ['fulfil', 'fulfilled'],
      ['digital', 'mail'],
      ['ship', undefined],
      ['mail', undefined],
      ['papers', undefined],
      ['invoice', undefined],
      ['customs', undefined],
      ['fulfilled', 'approve'],
      ['approve', undefined],
    ])
    expect(workflow.steps[0]).toEqual({
      name: 'charge',
      type: 'task',
      handler: 'ChargeCard',
      maxAttempts: 5,
      retry: { kind: 'fixed', delay: 5000, jitter: 0 },
      delay: 0,
      priority: 90,
      nonIdempotent: false,
      next: 'paid',
      onFailure: {
        name: 'refund',
        handler: 'RefundCard',
        maxAttempts: 3,
        retry: { kind: 'exponential', base: 1000, factor: 2, cap: 300_000, jitter: 0 },
        delay: 0,
        timeout: 10_000,
        priority: 90,
        nonIdempotent: false,
      },
    })
    expect(workflow.steps[3]).toEqual({
      name: 'digital',
      type: 'condition',
      expression: '{{ eq .kind "digital" }}',
      else: 'ship',
      next: 'mail',
    })
  })

  it('has the defaults of W-01, and the workflow may give another number of attempts', () => {
    const [step] = defineWorkflow('test', 'd').step('a', 'A').build().steps
    expect(step).toMatchObject({ maxAttempts: 3, retry: { kind: 'exponential', base: 1000 }, delay: 0, priority: 50 })
    const [other] = defineWorkflow('test', 'd', { retry: { maxAttempts: 7 } })
      .step('a', 'A')
      .onFailure('b', 'B')
      .build().steps
    expect(other).toMatchObject({ maxAttempts: 7, onFailure: { maxAttempts: 3 } })
  })

  it('K-20 a step and a compensation that must not be repeated keep their attempts for what was not done', () => {
    const once = { nonIdempotent: true }
    const [step] = defineWorkflow('test', 'd')
      .step('a', 'A', once)
      .onFailure('b', 'B', { ...once, retry: { maxAttempts: 2 } })
      .build().steps
    expect(step).toMatchObject({
      nonIdempotent: true,
      maxAttempts: 3,
      onFailure: { nonIdempotent: true, maxAttempts: 2 },
    })
  })

  it('K-19 a compensation says which calls it undoes', () => {
    const undo = { compensateIf: 'completed' } as const
    const [step] = defineWorkflow('test', 'd').step('a', 'A').onFailure('b', 'B', undo).build().steps
    expect(step).toMatchObject({ onFailure: { compensateIf: 'completed', maxAttempts: 3 } })
    const wrong = { compensateIf: 'always' } as unknown as typeof undo
    expect(() => defineWorkflow('test', 'd').step('a', 'A').onFailure('b', 'B', wrong)).toThrow(
      "option `compensateIf` must be one of 'possible', 'completed', 'attempted'",
    )
  })

  it('does not change the builder that it was called on', () => {
    const start = defineWorkflow('test', 'd').step('a', 'A')
    const one = start.step('b', 'B').build()
    const two = start.step('c', 'C').build()
    expect(one.steps.map(({ name }) => name)).toEqual(['a', 'b'])
    expect(two.steps.map(({ name }) => name)).toEqual(['a', 'c'])
  })

  it('makes a fork of a parallel that is joined by name', () => {
    const parallel = defineWorkflow('test', 'd').parallel(
      'p',
      (b) => b.step('a', 'A'),
      (b) => b.step('b', 'B'),
    )
    expect(parallel.build().steps[0]?.type).toBe('parallel')
    expect(parallel.join('j', 'any').build().steps[0]).toMatchObject({ type: 'fork', next: 'j' })
  })

  it('knows the names of steps, handlers and human steps at compile time', () => {
    type Types = NonNullable<ReturnType<typeof order>['types']>
    expectTypeOf<Types['steps']>().toEqualTypeOf<
      | 'charge'
      | 'paid'
      | 'fulfil'
      | 'digital'
      | 'ship'
      | 'mail'
      | 'papers'
      | 'invoice'
      | 'customs'
      | 'fulfilled'
      | 'approve'
    >()
    expectTypeOf<Types['calls']['handler']>().toEqualTypeOf<
      'ChargeCard' | 'RefundCard' | 'ShipOrder' | 'Mail' | 'Invoice' | 'Customs' | 'Unapprove'
    >()
    expectTypeOf<Types['humans']>().toEqualTypeOf<'approve'>()
    // @ts-expect-error a name that is taken
    expect(() => defineWorkflow('test', 'd').step('a', 'A').step('a', 'B').build()).toThrow('the name is used twice')
    defineWorkflow('test', 'd')
      .step('a', 'A')
      .fork(
        'f',
        // @ts-expect-error a name that is taken further out
        (b) => b.step('a', 'A'),
        (b) => b.step('b', 'B'),
      )
    // @ts-expect-error an option that does not exist
    expect(() => defineWorkflow('test', 'd').step('a', 'A', { retri: [] })).toThrow('did you mean `retry`?')
    const name: string = 'computed'
    expect(defineWorkflow('test', 'd').step(name, 'A').step('b', 'B').build().steps).toHaveLength(2)
  })

  it('lists the handlers that it needs', () => {
    expect(handlersOf(order())).toEqual([
      'ChargeCard',
      'RefundCard',
      'ShipOrder',
      'Mail',
      'Invoice',
      'Customs',
      'Unapprove',
    ])
  })
})
