import { describe, expect, it } from 'vitest'
import type { CallSpec } from './call-spec.js'
import { Calls } from './calls.js'
import { Mismatch } from './mismatch.js'

const sleep: CallSpec = { kind: 'SLEEP', forMs: 1 }
const wait: CallSpec = { kind: 'WAIT', condition: () => true, timeoutMs: 1, onTimeout: 'tsq' }

describe('the calls of an execution', () => {
  it('P-06 a name used again is told apart by its occurrence', () => {
    const calls = new Calls()
    expect(calls.nextId('a')).toBe('a')
    expect([calls.add('a', sleep), calls.add('b', sleep), calls.add('a', sleep)].map(({ id }) => id)).toEqual([
      'a',
      'b',
      'a#2',
    ])
    expect(calls.nextId('a')).toBe('a#3')
  })

  it('P-18 a name used for two kinds is refused', () => {
    const calls = new Calls()
    calls.add('a', sleep)
    expect(() => calls.add('a', wait)).toThrow(expect.objectContaining({ code: 'HF_STEP_NAME_REUSED' }))
  })

  it('P-18 a record without its call names what was recorded and what is open', () => {
    const calls = new Calls()
    const found = (kind: string, name: string, occurrence = 1) => {
      try {
        return calls.recorded(kind, name, occurrence).id
      } catch (error) {
        if (!(error instanceof Mismatch)) throw error
        return error.message
      }
    }
    expect(found('STEP', 'a')).toBe('recorded STEP `a`, found that no call is open')
    calls.add('b', sleep)
    calls.add('c', wait)
    expect(found('STEP', 'a', 2)).toBe('recorded STEP `a#2`, found SLEEP `b`, WAIT `c`')
    expect(found('WAIT', 'b')).toBe('recorded WAIT `b`, found SLEEP `b`')
    expect(found('WAIT', 'c')).toBe('c')
  })

  it('P-08 settled calls are no longer open, and are still known', () => {
    const calls = new Calls()
    const call = calls.add('a', sleep)
    calls.add('b', sleep)
    calls.settled(call)
    expect([...calls.open()].map(({ id }) => id)).toEqual(['b'])
    expect(calls.with('waiting').map(({ id }) => id)).toEqual(['b'])
    expect([...calls.all()].map(({ id }) => id)).toEqual(['a', 'b'])
  })
})
