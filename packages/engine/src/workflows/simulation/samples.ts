import { classifyFailure } from '../../kernel/failure/classify.js'
import { BusinessError, PermanentError } from '../../kernel/failure/failure-errors.js'
import { defineWorkflow } from '../define.js'
import type { Simulation } from './simulation.js'

/** Failures of each kind, a few workflows, and steps that fail: what several tests of decisions begin with. */

export const transient = classifyFailure(new Error('try again'), { unknown: 'transient' })
export const business = classifyFailure(new BusinessError('declined', { code: 'DECLINED' }), { unknown: 'transient' })
export const permanent = classifyFailure(new PermanentError('broken'), { unknown: 'transient' })

export const fail = (simulation: Simulation, step: string, failure = business) => {
  simulation.claim(step)
  return simulation.apply({ type: 'failed', step, failure })
}
export const failUndo = (simulation: Simulation, step: string) => {
  simulation.claim(step, 'compensation')
  return simulation.apply({ type: 'compensation_failed', step, failure: business })
}

export const chain = defineWorkflow('test', 'chain')
  .step('a', 'A')
  .onFailure('undo a', 'UndoA')
  .step('b', 'B')
  .step('c', 'C', { delay: '5s', priority: 80, retry: ['1s', '10s'] })
  .onFailure('undo c', 'UndoC', { retry: { maxAttempts: 2, delays: ['2s'] }, delay: 7 })
  .build()

export const forked = (strategy: 'all' | 'any', dlq = false) =>
  defineWorkflow('test', 'forked', { dlq })
    .step('first', 'H')
    .onFailure('undo first', 'U')
    .fork(
      'fork',
      (b) => b.step('l1', 'H').onFailure('undo l1', 'U').step('l2', 'H').onFailure('undo l2', 'U'),
      (b) => b.step('r1', 'H').onFailure('undo r1', 'U'),
    )
    .join('join', strategy)
    .step('last', 'H')
    .onFailure('undo last', 'U')
    .build()

export const human = defineWorkflow('test', 'human')
  .step('a', 'H')
  .onFailure('ua', 'U')
  .fork(
    'f',
    (b) => b.waitHumanConfirm('ok').onFailure('uo', 'U').step('b', 'H'),
    (b) => b.step('c', 'H'),
  )
  .join('j', 'all')
  .build()
