import { describe, expect, expectTypeOf, it } from 'vitest'
import { defineWorkflow, type Workflow } from './define.js'
import { canonicalWorkflow, workflowHash } from './definition/canonical.js'
import { handlersOf } from './definition/definition.js'
import { loadWorkflow } from './definition/load.js'
import { workflowReference } from './definition/names.js'

const order = () =>
  defineWorkflow('order', 3, { lease: '1m' })
    .step('charge', 'ChargeCard', { maxAttempts: 5, retry: { kind: 'fixed', delay: '5s' }, priority: 90 })
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

describe('W-01 the builder', () => {
  it('makes plain data, with every default filled in', () => {
    const workflow = order()
    expect(JSON.parse(JSON.stringify(workflow))).toEqual(workflow)
    expect(workflow).toMatchObject({ name: 'order', version: 3, dlq: false, lease: 60_000 })
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
    const [step] = defineWorkflow('d', 1).step('a', 'A').build().steps
    expect(step).toMatchObject({ maxAttempts: 3, retry: { kind: 'exponential', base: 1000 }, delay: 0, priority: 50 })
    const [other] = defineWorkflow('d', 1, { maxAttempts: 7 }).step('a', 'A').onFailure('b', 'B').build().steps
    expect(other).toMatchObject({ maxAttempts: 7, onFailure: { maxAttempts: 3 } })
  })

  it('calls a non-idempotent step once, compensations too', () => {
    const once = { nonIdempotent: true }
    const [step] = defineWorkflow('d', 1).step('a', 'A', once).onFailure('b', 'B', once).build().steps
    expect(step).toMatchObject({ maxAttempts: 1, onFailure: { maxAttempts: 1 } })
    expect(() => defineWorkflow('d', 1).step('a', 'A', { nonIdempotent: true, maxAttempts: 2 })).toThrow(
      'workflow d, step `a`: option `maxAttempts` must be 1 or left out beside `nonIdempotent`',
    )
  })

  it('leaves the builder that it was called on as it was', () => {
    const start = defineWorkflow('d', 1).step('a', 'A')
    const one = start.step('b', 'B').build()
    const two = start.step('c', 'C').build()
    expect(one.steps.map(({ name }) => name)).toEqual(['a', 'b'])
    expect(two.steps.map(({ name }) => name)).toEqual(['a', 'c'])
  })

  it('makes a fork of a parallel that is joined by name', () => {
    const parallel = defineWorkflow('d', 1).parallel(
      'p',
      (b) => b.step('a', 'A'),
      (b) => b.step('b', 'B'),
    )
    expect(parallel.build().steps[0]?.type).toBe('parallel')
    expect(parallel.join('j', 'any').build().steps[0]).toMatchObject({ type: 'fork', next: 'j' })
  })

  it('knows the names of steps, handlers and human steps at compile time', () => {
    expectTypeOf(order()).toEqualTypeOf<
      Workflow<
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
        | 'approve',
        'ChargeCard' | 'RefundCard' | 'ShipOrder' | 'Mail' | 'Invoice' | 'Customs' | 'Unapprove',
        'approve'
      >
    >()
    // @ts-expect-error a name that is taken
    expect(() => defineWorkflow('d', 1).step('a', 'A').step('a', 'B').build()).toThrow('the name is used twice')
    defineWorkflow('d', 1)
      .step('a', 'A')
      .fork(
        'f',
        // @ts-expect-error a name that is taken further out
        (b) => b.step('a', 'A'),
        (b) => b.step('b', 'B'),
      )
    // @ts-expect-error an option that does not exist
    expect(() => defineWorkflow('d', 1).step('a', 'A', { retri: [] })).toThrow('did you mean `retry`?')
    const name: string = 'computed'
    expect(defineWorkflow('d', 1).step(name, 'A').step('b', 'B').build().steps).toHaveLength(2)
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

const refused: [string, () => unknown, string][] = [
  ['no steps', () => defineWorkflow('d', 1).build(), 'workflow d: it has no steps; add one with `step`'],
  ['an empty name', () => defineWorkflow('d', 1).step('', 'A').build(), 'step ``: the name is empty'],
  ['a blank name', () => defineWorkflow('d', 1).step(' ', 'A').build(), 'step ` `: the name is empty'],
  ['a long name', () => defineWorkflow('d', 1).step('x'.repeat(201), 'A').build(), '201 characters; 200 is the most'],
  ['a name with a zero', () => defineWorkflow('d', 1).step('a\u0000', 'A').build(), 'which PostgreSQL cannot hold'],
  [
    'a name cond#',
    () => defineWorkflow('d', 1).step('cond#a', 'A').build(),
    'names that begin with `cond#` are reserved',
  ],
  [
    'a name _root_',
    () => defineWorkflow('d', 1).savePoint('_root_').build(),
    'names that begin with `_root_` are reserved',
  ],
  [
    'a duplicate in two branches',
    () =>
      defineWorkflow('d', 1)
        .fork(
          'f',
          (b) => b.step('a', 'A'),
          (b) => b.step('a', 'A'),
        )
        .build(),
    'workflow d, step `a`: the name is used twice; give each step its own',
  ],
  [
    'a compensation named as a step',
    () => defineWorkflow('d', 1).step('a', 'A').onFailure('b', 'B').step('b', 'B').build(),
    'step `b`: the name is used twice',
  ],
  [
    'one branch',
    () =>
      defineWorkflow('d', 1)
        .fork('f', (b) => b.step('a', 'A'))
        .build(),
    'two branches or more, not 1',
  ],
  ['no branch', () => defineWorkflow('d', 1).parallel('p').build(), 'a parallel has two branches or more, not 0'],
  [
    'an empty branch',
    () =>
      defineWorkflow('d', 1)
        .fork(
          'f',
          (b) => b.step('a', 'A'),
          (b) => b,
        )
        .join('j', 'all')
        .build(),
    'workflow d, step `f`: branch 2 is empty; give it a step or leave it out',
  ],
  [
    'an empty else branch',
    () =>
      defineWorkflow('d', 1)
        .condition('c', '{{ .a }}', (b) => b)
        .build(),
    'step `c`: the else branch is empty',
  ],
  ['a task without handler', () => defineWorkflow('d', 1).step('a', '').build(), 'step `a`: it has no handler'],
  [
    'a compensation without handler',
    () => defineWorkflow('d', 1).step('a', 'A').onFailure('b', ' ').build(),
    'step `a`: its compensation has no handler',
  ],
  [
    'a save point in a fork',
    () =>
      defineWorkflow('d', 1)
        .fork(
          'f',
          (b) => b.step('a', 'A').savePoint('s'),
          (b) => b.step('b', 'B'),
        )
        .build(),
    'step `s`: a save point cannot be inside a fork, where others are under way; put it after the join',
  ],
  [
    'a save point in an else branch in a fork',
    () =>
      defineWorkflow('d', 1)
        .fork(
          'f',
          (b) => b.condition('c', '{{ .a }}', (e) => e.savePoint('s')),
          (b) => b.step('b', 'B'),
        )
        .build(),
    'step `s`: a save point cannot be inside a fork',
  ],
  [
    'a malformed condition',
    () => defineWorkflow('d', 1).condition('c', '{{ gt .a }}').build(),
    'workflow d, step `c`: malformed condition, at character 4: `gt` takes 2 values, not 1\n{{ gt .a }}\n   ^',
  ],
  [
    'a join without a fork',
    () => defineWorkflow('d', 1).step('a', 'A').join('j', 'all').build(),
    'step `j`: a join stands right after its fork',
  ],
  [
    'a join first',
    () => defineWorkflow('d', 1).join('j', 'all').build(),
    'step `j`: a join stands right after its fork',
  ],
  [
    'a fork that is not joined',
    () =>
      defineWorkflow('d', 1)
        .fork(
          'f',
          (b) => b.step('a', 'A'),
          (b) => b.step('b', 'B'),
        )
        .step('c', 'C')
        .build(),
    'step `c`: fork `f` has to be joined first: put a `join` between, or use `parallel`',
  ],
  [
    'a compensation first',
    () => defineWorkflow('d', 1).onFailure('a', 'A'),
    'step `a`: a compensation stands right after the step it undoes',
  ],
  [
    'a compensation of a save point',
    () => defineWorkflow('d', 1).savePoint('s').onFailure('a', 'A'),
    'a task or a human step',
  ],
  [
    'two compensations',
    () => defineWorkflow('d', 1).step('a', 'A').onFailure('b', 'B').onFailure('c', 'C'),
    'step `c`: step `a` has a compensation already; a step has one',
  ],
  ['a workflow without a name', () => defineWorkflow('', 1), 'workflow : the name is empty'],
  ['a workflow named like a version', () => defineWorkflow('order-v2', 1), 'the name ends like a version'],
]

describe('W-02 build refuses', () => {
  it.each(refused)('%s', (_, make, message) => {
    expect(make).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_WORKFLOW', message: expect.stringContaining(message) }),
    )
  })

  const untyped = defineWorkflow('d', 1) as unknown as Record<
    string,
    (...args: unknown[]) => Record<string, () => unknown>
  >
  it.each<[string, () => unknown, string]>([
    ['a number as name', () => untyped.step?.(5, 'A').build?.(), 'step `5`: the name must be a text, not 5'],
    ['no handler', () => untyped.step?.('a').build?.(), 'it has no handler: the name must be a text, not undefined'],
    ['a number as condition', () => untyped.condition?.('c', 5), 'must be a text such as {{ gt .amount 100 }}, not 5'],
    [
      'a branch that returns nothing',
      () => untyped.fork?.('f', () => undefined),
      'branch 1 answered undefined; return the builder, as in (b) => b.step(…)',
    ],
  ])('%s', (_, make, message) => {
    expect(make).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_WORKFLOW', message: expect.stringContaining(message) }),
    )
  })

  it.each<[unknown, string]>([
    [{ priority: 101 }, 'option `priority` must be from 0 to 100, not 101'],
    [{ maxAttempts: 0 }, 'option `maxAttempts` must be 1 or more'],
    [{ retry: { kind: 'sometimes' } }, 'option `kind` must be one of'],
    [{ delay: '5x' }, "option `delay`: '5x' is not a duration"],
    [{ timeout: 0 }, 'option `timeout` must be'],
    [{ metadata: [] }, 'option `metadata` must be an object, not an array'],
    [{ metadata: { a: () => 1 } }, 'metadata.a cannot be stored'],
    [{ nonIdempotent: 'yes' }, 'option `nonIdempotent` must be true or false'],
  ])('the options %j, naming step and option', (options, message) => {
    expect(() => untyped.step?.('a', 'A', options)).toThrow(message)
    expect(() => untyped.step?.('a', 'A', options)).toThrow('workflow d, step `a`')
  })

  it('nesting that nothing could follow', () => {
    type Any = {
      fork: (name: string, ...branches: ((b: Any) => Any)[]) => Any
      step: (n: string, h: string) => Any
      build(): unknown
    }
    const nest = (b: Any, depth: number): Any =>
      depth === 0
        ? b.step('last', 'A')
        : b.fork(
            `f${depth}`,
            (c) => nest(c, depth - 1),
            (c) => c.step(`s${depth}`, 'A'),
          )
    const start = defineWorkflow('d', 1) as unknown as Any
    expect(nest(start, 450).build()).toBeDefined()
    expect(() => nest(start, 501).build()).toThrow('is nested deeper than 500')
  })

  it('a builder that is awaited by mistake', async () => {
    const builder: unknown = defineWorkflow('d', 1).step('a', 'A')
    await expect(async () => await builder).rejects.toThrow('the builder was awaited; call `build`')
  })
})

describe('W-01 a workflow as a file', () => {
  it('comes back the same, as text or as data', () => {
    const workflow = order()
    expect(loadWorkflow(JSON.stringify(workflow))).toEqual(workflow)
    expect(loadWorkflow(workflow)).toEqual(workflow)
  })

  it('has the defaults of the builder, and accepts durations as people write them', () => {
    const file = {
      name: 'order',
      version: 1,
      maxAttempts: 4,
      steps: [
        { name: 'a', type: 'task', handler: 'A', delay: '5s', retry: ['1s'], onFailure: { name: 'b', handler: 'B' } },
      ],
    }
    const built = defineWorkflow('order', 1, { maxAttempts: 4 })
      .step('a', 'A', { delay: 5000, retry: [1000] })
      .onFailure('b', 'B')
      .build()
    expect(loadWorkflow(file)).toEqual(built)
  })

  const step = { name: 'a', type: 'task', handler: 'A' }
  const file = (...steps: unknown[]) => ({ name: 'f', version: 1, steps })
  it.each<[string, unknown, string, string]>([
    ['no JSON', '{', 'HF_INVALID_WORKFLOW_FILE', '$ is not JSON'],
    ['no object', '[]', 'HF_INVALID_WORKFLOW_FILE', '$ must be an object, not an array'],
    ['nothing', null, 'HF_INVALID_WORKFLOW_FILE', '$ must be an object, not null'],
    [
      'no name',
      { version: 1, steps: [step] },
      'HF_INVALID_WORKFLOW_FILE',
      '$.name is no name: the name must be a text',
    ],
    ['no version', { name: 'f', steps: [step] }, 'HF_INVALID_OPTION', 'workflow file $: option `version` is required'],
    ['no steps', { name: 'f', version: 1 }, 'HF_INVALID_WORKFLOW_FILE', '$.steps must be a list, not undefined'],
    ['an unknown key', { ...file(step), stesp: [] }, 'HF_UNKNOWN_OPTION', 'did you mean `steps`?'],
    ['no step', file(5), 'HF_INVALID_WORKFLOW_FILE', '$.steps[0] must be an object, not 5'],
    ['a step without name', file({ type: 'task' }), 'HF_INVALID_WORKFLOW_FILE', '$.steps[0].name must be a text'],
    [
      'an unknown type',
      file({ ...step, type: 'loop' }),
      'HF_INVALID_OPTION',
      '$.steps[0]: option `type` must be one of',
    ],
    [
      'an inherited key',
      file(JSON.parse('{"name":"a","type":"task","handler":"A","__proto__":1}')),
      'HF_UNKNOWN_OPTION',
      '__proto__',
    ],
    ['no handler', file({ name: 'a', type: 'task' }), 'HF_INVALID_WORKFLOW_FILE', '$.steps[0].handler must be a text'],
    ['an empty handler', file({ ...step, handler: '' }), 'HF_INVALID_WORKFLOW', 'step `a`: it has no handler'],
    [
      'an option of another type',
      file({ name: 's', type: 'save_point', priority: 5 }),
      'HF_UNKNOWN_OPTION',
      'priority',
    ],
    [
      'a wrong option',
      file({ ...step, priority: 400 }),
      'HF_INVALID_OPTION',
      '$.steps[0]: option `priority` must be from 0',
    ],
    [
      'a wrong compensation',
      file({ ...step, onFailure: [] }),
      'HF_INVALID_WORKFLOW_FILE',
      '$.steps[0].onFailure must be an object',
    ],
    [
      'a compensation without name',
      file({ ...step, onFailure: { handler: 'B' } }),
      'HF_INVALID_WORKFLOW_FILE',
      '$.steps[0].onFailure.name',
    ],
    [
      'a wrong branch',
      file({ name: 'f', type: 'fork', branches: ['a', 5] }),
      'HF_INVALID_WORKFLOW_FILE',
      '$.steps[0].branches[1] must be a text',
    ],
    ['a wrong next', file({ ...step, next: 5 }), 'HF_INVALID_WORKFLOW_FILE', '$.steps[0].next must be a text, not 5'],
    [
      'no expression',
      file({ name: 'c', type: 'condition' }),
      'HF_INVALID_WORKFLOW_FILE',
      '$.steps[0].expression must be a text',
    ],
    ['no strategy', file({ name: 'j', type: 'join' }), 'HF_INVALID_OPTION', 'option `strategy` is required'],
    [
      'an unknown next',
      file({ ...step, next: 'c' }, { ...step, name: 'b' }),
      'HF_INVALID_WORKFLOW',
      'step `a`: leads to `c`, which does not exist; did you mean',
    ],
    [
      'an unknown else',
      file({ name: 'c', type: 'condition', expression: '{{ .a }}', else: 'zzz' }),
      'HF_INVALID_WORKFLOW',
      'leads to `zzz`, which does not exist; add it',
    ],
    [
      'a cycle',
      file({ ...step, next: 'b' }, { ...step, name: 'b', next: 'a' }),
      'HF_INVALID_WORKFLOW',
      'step `a`: it leads back to itself (a → b → a); a workflow has no cycles',
    ],
    ['a step that follows itself', file({ ...step, next: 'a' }), 'HF_INVALID_WORKFLOW', '(a → a)'],
    [
      'branches that meet',
      file(
        { name: 'f', type: 'fork', branches: ['a', 'b'] },
        { ...step, next: 'c' },
        { ...step, name: 'b', next: 'c' },
        { ...step, name: 'c' },
      ),
      'HF_INVALID_WORKFLOW',
      'step `c`: `a` and `b` both lead to it; only a join brings branches together',
    ],
    [
      'a step that nothing leads to',
      file(step, { ...step, name: 'b' }),
      'HF_INVALID_WORKFLOW',
      'step `b`: no step leads here',
    ],
    ['two steps of one name', file({ ...step, next: 'a' }, step), 'HF_INVALID_WORKFLOW', 'the name is used twice'],
  ])('refuses %s', (_, json, code, message) => {
    expect(() => loadWorkflow(json)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    )
  })
})

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
