import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createCodec } from '../../kernel/codec/codec.js'
import { type DefinedProcess, definedProcess, defineProcess } from '../define.js'
import type { RecordedResponse } from '../history.js'
import { Mismatch } from './mismatch.js'
import { ProcessState } from './process-state.js'

const Told = defineProcess('d', 'P', {
  state: z.object({ log: z.array(z.number()) }),
  responses: {
    told: { data: z.number(), apply: (state, n) => void state.log.push(n) },
    silent: { data: z.number() },
    broken: {
      data: z.number(),
      apply: () => {
        throw new Error('broken reducer')
      },
    },
  },
  execute: async () => undefined,
})
const definition = definedProcess(Told) as DefinedProcess

const response = (number: number, name = 'told'): RecordedResponse => ({ number, name, data: number * 10, notes: null })
const stateWith = (responses: RecordedResponse[], more: { seen?: number; unmet?: number[] } = {}) =>
  new ProcessState({
    definition,
    codec: createCodec(),
    initial: { log: [] },
    seen: 0,
    unmet: [],
    events: [],
    responses,
    ...more,
  })

describe('the state of a process', () => {
  it('P-09 reads responses one at a time, in their order', () => {
    const state = stateWith([response(1), response(2)])
    expect([state.seen, state.received, state.shown]).toEqual([0, 2, { log: [] }])
    expect(state.applyNext()).toBe(true)
    expect([state.seen, state.shown]).toEqual([1, { log: [10] }])
    state.applyUpTo(2)
    expect(state.shown).toEqual({ log: [10, 20] })
    expect(state.applyNext()).toBe(false)
  })

  it('P-11 reads each response once', () => {
    const state = stateWith([response(1)])
    state.receive([response(1), response(2)])
    state.receive([response(2), response(3)])
    state.applyUpTo(3)
    expect(state.shown).toEqual({ log: [10, 20, 30] })
  })

  it('P-18 a record of a response that is not there does not fit', () => {
    expect(() => stateWith([response(1)]).applyUpTo(2)).toThrow(Mismatch)
    expect(() => stateWith([response(1, 'removed')]).applyNext()).toThrow(/recorded the response `removed`/)
  })

  it('P-03 events take responses by name, each once, oldest first', () => {
    const state = stateWith([response(1), response(2, 'silent'), response(3)])
    expect(state.find('told')).toBeUndefined()
    state.applyUpTo(3)
    expect(state.find('told')?.number).toBe(1)
    expect(state.take('told', 1)).toBe(10)
    expect(state.take('told', 1)).toBeUndefined()
    expect(state.find('told')?.number).toBe(3)
    expect(state.leftOver().unmet.toSorted((a, b) => a - b)).toEqual([2, 3])
  })

  it('P-24 begins with the responses that an earlier generation left unread', () => {
    const state = stateWith([response(2, 'silent'), response(6)], { seen: 5, unmet: [2] })
    expect([state.seen, state.received]).toEqual([5, 6])
    expect(state.take('silent', 2)).toBe(20)
    state.applyUpTo(6)
    expect(state.shown).toEqual({ log: [60] })
  })

  it('P-24 with unread responses only, nothing up to the last seen one is received again', () => {
    expect(stateWith([response(2, 'silent')], { seen: 5, unmet: [2] }).received).toBe(5)
  })

  it('a reducer that throws leaves the guard closed, and its response seen', () => {
    const state = stateWith([response(1, 'broken')])
    expect(() => state.applyNext()).toThrow('the reducer of the response `broken` threw: broken reducer')
    expect([state.guard.open, state.seen]).toEqual([false, 1])
  })
})
