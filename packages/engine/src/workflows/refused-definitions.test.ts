import { describe, expect, it } from 'vitest'
import { defineWorkflow } from './define.js'
import { loadWorkflow } from './definition/load.js'

const refused: [string, () => unknown, string][] = [
  ['no steps', () => defineWorkflow('test', 'd').build(), 'workflow test/d: it has no steps; add one with `step`'],
  ['an empty name', () => defineWorkflow('test', 'd').step('', 'A').build(), 'step ``: the name is empty'],
  ['a name with a slash', () => defineWorkflow('test', 'd').step('a/b', 'A').build(), 'must not contain `#` or `/`'],
  ['a name with a hash', () => defineWorkflow('test', 'd').step('a#2', 'A').build(), 'must not contain `#` or `/`'],
  [
    'a compensation with a slash',
    () => defineWorkflow('test', 'd').step('a', 'A').onFailure('u/a', 'U').build(),
    'must not contain `#` or `/`',
  ],
  ['a workflow with a slash', () => defineWorkflow('test', 'd/e'), 'must not contain `#` or `/`'],
  [
    'a handler named like the lane of starts',
    () => defineWorkflow('test', 'd').step('a', '_root_').build(),
    'it has no handler: names that begin with `_root_` are reserved',
  ],
  [
    'a compensation whose handler is named like the lane of starts',
    () => defineWorkflow('test', 'd').step('a', 'A').onFailure('u', '_root_').build(),
    'its compensation has no handler: names that begin with `_root_` are reserved',
  ],
  ['a blank name', () => defineWorkflow('test', 'd').step(' ', 'A').build(), 'step ` `: the name is empty'],
  [
    'a long name',
    () => defineWorkflow('test', 'd').step('x'.repeat(201), 'A').build(),
    'must have at most 200 characters, not 201',
  ],
  [
    'a name with a zero',
    () => defineWorkflow('test', 'd').step('a\u0000', 'A').build(),
    'which PostgreSQL cannot hold',
  ],
  [
    'a name cond#',
    () => defineWorkflow('test', 'd').step('cond#a', 'A').build(),
    'names that begin with `cond#` are reserved',
  ],
  [
    'a name _root_',
    () => defineWorkflow('test', 'd').savePoint('_root_').build(),
    'names that begin with `_root_` are reserved',
  ],
  [
    'a duplicate in two branches',
    () =>
      defineWorkflow('test', 'd')
        .fork(
          'f',
          (b) => b.step('a', 'A'),
          (b) => b.step('a', 'A'),
        )
        .build(),
    'workflow test/d, step `a`: the name is used twice; give each step its own',
  ],
  [
    'a compensation named as a step',
    () => defineWorkflow('test', 'd').step('a', 'A').onFailure('b', 'B').step('b', 'B').build(),
    'step `b`: the name is used twice',
  ],
  [
    'one branch',
    () =>
      defineWorkflow('test', 'd')
        .fork('f', (b) => b.step('a', 'A'))
        .build(),
    'two branches or more, not 1',
  ],
  ['no branch', () => defineWorkflow('test', 'd').parallel('p').build(), 'a parallel has two branches or more, not 0'],
  [
    'an empty branch',
    () =>
      defineWorkflow('test', 'd')
        .fork(
          'f',
          (b) => b.step('a', 'A'),
          (b) => b,
        )
        .join('j', 'all')
        .build(),
    'workflow test/d, step `f`: branch 2 is empty; give it a step or leave it out',
  ],
  [
    'an empty else branch',
    () =>
      defineWorkflow('test', 'd')
        .condition('c', '{{ .a }}', (b) => b)
        .build(),
    'step `c`: the else branch is empty',
  ],
  ['a task without handler', () => defineWorkflow('test', 'd').step('a', '').build(), 'step `a`: it has no handler'],
  [
    'a compensation without handler',
    () => defineWorkflow('test', 'd').step('a', 'A').onFailure('b', ' ').build(),
    'step `a`: its compensation has no handler',
  ],
  [
    'a save point in a fork',
    () =>
      defineWorkflow('test', 'd')
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
      defineWorkflow('test', 'd')
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
    () => defineWorkflow('test', 'd').condition('c', '{{ gt .a }}').build(),
    'workflow test/d, step `c`: malformed condition, at character 4: `gt` takes 2 values, not 1\n{{ gt .a }}\n   ^',
  ],
  [
    'a join without a fork',
    () => defineWorkflow('test', 'd').step('a', 'A').join('j', 'all').build(),
    'step `j`: a join stands right after its fork',
  ],
  [
    'a join first',
    () => defineWorkflow('test', 'd').join('j', 'all').build(),
    'step `j`: a join stands right after its fork',
  ],
  [
    'a fork that is not joined',
    () =>
      defineWorkflow('test', 'd')
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
    () => defineWorkflow('test', 'd').onFailure('a', 'A'),
    'step `a`: a compensation stands right after the step it undoes',
  ],
  [
    'a compensation of a save point',
    () => defineWorkflow('test', 'd').savePoint('s').onFailure('a', 'A'),
    'a task or a human step',
  ],
  [
    'two compensations',
    () => defineWorkflow('test', 'd').step('a', 'A').onFailure('b', 'B').onFailure('c', 'C'),
    'step `c`: step `a` has a compensation already; a step has one',
  ],
  ['a workflow without a name', () => defineWorkflow('test', ''), 'workflow test/: the name is empty'],
  ['a workflow named like a version', () => defineWorkflow('test', 'order-v2'), 'the name ends like a version'],
]

describe('W-02 build refuses', () => {
  it.each(refused)('%s', (_, make, message) => {
    expect(make).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_WORKFLOW', message: expect.stringContaining(message) }),
    )
  })

  const untyped = defineWorkflow('test', 'd') as unknown as Record<
    string,
    (...args: unknown[]) => Record<string, () => unknown>
  >
  it.each<[string, () => unknown, string]>([
    ['a number as name', () => untyped.step?.(5, 'A').build?.(), 'step `5`: the name must be a text, not 5'],
    ['no handler', () => untyped.step?.('a').build?.(), 'it has no handler: the name must be a text, not undefined'],
    ['a number as condition', () => untyped.condition?.('c', 5), 'or a text such as {{ gt .amount 100 }}, not 5'],
    [
      'a branch that returns nothing',
      () => untyped.fork?.('f', () => undefined),
      'branch 1 returned undefined; return the builder, as in (b) => b.step(…)',
    ],
  ])('%s', (_, make, message) => {
    expect(make).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_WORKFLOW', message: expect.stringContaining(message) }),
    )
  })

  it.each<[unknown, string]>([
    [{ priority: 101 }, 'option `priority` must be from 0 to 100, not 101'],
    [{ maxAttempts: 3 }, 'unknown option `maxAttempts`'],
    [{ retry: { maxAttempts: 0 } }, 'option `maxAttempts` must be from 1 to'],
    [{ retry: { kind: 'sometimes' } }, 'unknown option `kind`'],
    [{ delay: '5x' }, "option `delay`: '5x' is not a duration"],
    [{ timeout: 0 }, 'option `timeout` must be'],
    [{ metadata: [] }, 'option `metadata` must be an object, not an array'],
    [{ metadata: { a: () => 1 } }, 'metadata.a cannot be stored'],
    [{ nonIdempotent: 'yes' }, 'option `nonIdempotent` must be true or false'],
  ])('the options %j, naming step and option', (options, message) => {
    expect(() => untyped.step?.('a', 'A', options)).toThrow(message)
    expect(() => untyped.step?.('a', 'A', options)).toThrow('workflow test/d, step `a`')
  })

  it('nesting that is too deep', () => {
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
    const start = defineWorkflow('test', 'd') as unknown as Any
    expect(nest(start, 450).build()).toBeDefined()
    expect(() => nest(start, 501).build()).toThrow('is nested deeper than 500')
  })

  it('more steps than can be numbered', () => {
    const file = (count: number) => ({
      domain: 'test',
      type: 'd',
      version: 1,
      steps: Array.from({ length: count }, (_, at) => ({
        name: `s${at}`,
        type: 'task',
        handler: 'A',
        ...(at + 1 < count && { next: `s${at + 1}` }),
      })),
    })
    expect(loadWorkflow(file(32_767)).steps).toHaveLength(32_767)
    expect(() => loadWorkflow(file(32_768))).toThrow('it has 32768 steps; 32767 is the most, split the workflow')
  })

  it('a builder that is awaited by mistake', async () => {
    const builder: unknown = defineWorkflow('test', 'd').step('a', 'A')
    await expect(async () => await builder).rejects.toThrow('the builder was awaited; call `build`')
  })
})
