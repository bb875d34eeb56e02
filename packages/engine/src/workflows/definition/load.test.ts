import { describe, expect, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { order } from '../order.fixture.js'
import { loadWorkflow } from './load.js'

describe('W-01 a workflow as a file', () => {
  it('is the same after a round trip, as text or as data', () => {
    const workflow = order()
    expect(loadWorkflow(JSON.stringify(workflow))).toEqual(workflow)
    expect(loadWorkflow(workflow)).toEqual(workflow)
  })

  it('has the defaults of the builder, and accepts durations as people write them', () => {
    const file = {
      domain: 'test',
      type: 'order',
      version: 1,
      retry: { maxAttempts: 4 },
      steps: [
        { name: 'a', type: 'task', handler: 'A', delay: '5s', retry: ['1s'], onFailure: { name: 'b', handler: 'B' } },
      ],
    }
    const built = defineWorkflow('test', 'order', { retry: { maxAttempts: 4 } })
      .step('a', 'A', { delay: 5000, retry: [1000] })
      .onFailure('b', 'B')
      .build()
    expect(loadWorkflow(file)).toEqual(built)
  })

  const step = { name: 'a', type: 'task', handler: 'A' }
  const file = (...steps: unknown[]) => ({ domain: 'test', type: 'f', version: 1, steps })
  it.each<[string, unknown, string, string]>([
    ['no JSON', '{', 'HF_INVALID_WORKFLOW_FILE', '$ is not JSON'],
    ['no object', '[]', 'HF_INVALID_WORKFLOW_FILE', '$ must be an object, not an array'],
    ['nothing', null, 'HF_INVALID_WORKFLOW_FILE', '$ must be an object, not null'],
    [
      'no domain',
      { type: 'f', version: 1, steps: [step] },
      'HF_INVALID_WORKFLOW_FILE',
      '$.domain is no name: the name must be a text',
    ],
    [
      'no type',
      { domain: 'test', version: 1, steps: [step] },
      'HF_INVALID_WORKFLOW_FILE',
      '$.type is no name: the name must be a text',
    ],
    [
      'a type like a version',
      { domain: 'test', type: 'f-v2', version: 1, steps: [step] },
      'HF_INVALID_WORKFLOW_FILE',
      '$.type is no name: the name ends like a version',
    ],
    [
      'a name that is another one',
      { ...file(step), name: 'f' },
      'HF_INVALID_WORKFLOW_FILE',
      '$.name must be left out, or be test/f',
    ],
    [
      'no version',
      { domain: 'test', type: 'f', steps: [step] },
      'HF_INVALID_OPTION',
      'workflow file $: option `version` is required',
    ],
    [
      'no steps',
      { domain: 'test', type: 'f', version: 1 },
      'HF_INVALID_WORKFLOW_FILE',
      '$.steps must be a list, not undefined',
    ],
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
