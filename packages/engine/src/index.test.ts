import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import * as front from './index.js'
import * as types from './types.js'

const names = (file: string): string[] =>
  [...readFileSync(new URL(file, import.meta.url), 'utf8').matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(
    ([, list = '']) => list.split(',').flatMap((name) => name.trim().split(' ').at(-1) || []),
  )

test('U-12 the root entry has the define functions, `holdfast`, the error classes and a few that people call', () => {
  expect(Object.keys(front).toSorted()).toEqual([
    'BusinessError',
    'HoldfastError',
    'PermanentError',
    'StepFailed',
    'TransientError',
    'createCodec',
    'defineCommand',
    'defineDispatch',
    'defineManager',
    'defineProcess',
    'defineType',
    'defineWorkflow',
    'handlersOf',
    'holdfast',
    'loadWorkflow',
    'ofType',
    'processTarget',
    'renderMermaid',
    'renderText',
    'resultOf',
    'stepCommand',
    'workflowTarget',
  ])
  expect(names('index.ts').length).toBeLessThanOrEqual(95)
})

test('U-12 all other types are in holdfast/types, which has nothing at run time', () => {
  expect(Object.keys(types)).toEqual([])
  expect(names('types.ts').filter((name) => names('index.ts').includes(name))).toEqual([])
})
