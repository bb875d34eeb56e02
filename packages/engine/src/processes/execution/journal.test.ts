import { describe, expect, it } from 'vitest'
import type { Batcher } from '../../kernel/batching/batcher.js'
import { createCodec } from '../../kernel/codec/codec.js'
import type { DefinedProcess } from '../define.js'
import type { Incoming, ProcessWrite } from '../queries/write-processes.js'
import { Journal } from './journal.js'
import { ProcessState } from './process-state.js'

/** A journal whose writes the test lets land one by one. */
function staged() {
  const flights: { write: ProcessWrite; land: (incoming?: Incoming) => void; fail: (error: Error) => void }[] = []
  const writes: Batcher<ProcessWrite, Incoming | undefined> = {
    write: (write) => new Promise((land, fail) => flights.push({ write, land, fail })),
    pending: 0,
    close: async () => undefined,
  }
  const definition = { responses: new Map() } as unknown as DefinedProcess
  const state = new ProcessState({
    definition,
    codec: createCodec(),
    initial: {},
    seen: 0,
    unmet: [],
    events: [],
    responses: [],
  })
  let time = 1_000
  const journal = new Journal({ id: 'p', epoch: 1, generation: 1, state, now: () => time, writes }, 500)
  return { journal, flights, state, setTime: (now: number) => (time = now) }
}

const record = (name: string) => ({ kind: 'STEP', name, occurrence: 1, status: 'COMPLETED' }) as const
const names = (write: ProcessWrite | undefined) => write?.events.map(({ name }) => name)
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('the journal', () => {
  it('P-08 events that were appended during a write are written together, in order', async () => {
    const { journal, flights } = staged()
    journal.append(record('a'))
    const first = journal.flush()
    journal.append(record('b'))
    journal.append(record('c'))
    const second = journal.flush()
    await turn()
    expect(flights.map(({ write }) => names(write))).toEqual([['a']])
    flights[0]?.land()
    await first
    await turn()
    expect(names(flights[1]?.write)).toEqual(['b', 'c'])
    flights[1]?.land()
    await second
    expect(journal.dirty).toBe(false)
  })

  it('P-17 no caller that waited for a failed write continues', async () => {
    const { journal, flights } = staged()
    journal.append(record('a'))
    const first = journal.flush()
    journal.append(record('b'))
    // Both wait for the first; one of them takes the records of both along.
    const second = journal.flush().catch((error: Error) => error.message)
    journal.append(record('c'))
    const third = journal.flush().catch((error: Error) => error.message)
    flights[0]?.land()
    await first
    await turn()
    expect(names(flights[1]?.write)).toEqual(['b', 'c'])
    flights[1]?.fail(new Error('lease lost'))
    expect(await second).toBe('lease lost')
    expect(await third).toBe('lease lost')
    await expect(journal.flush()).rejects.toThrow('lease lost')
    expect(flights).toHaveLength(2)
  })

  it('P-11 keeps its events when something came in before the suspension', async () => {
    const { journal, flights } = staged()
    journal.append(record('a'))
    const suspension = {
      status: 'COMPLETED',
      dueAt: null,
      ended: true,
      received: 0,
      receivedCancel: false,
      seen: 0,
      state: undefined,
    } as const
    const suspending = journal.suspend(suspension)
    flights[0]?.land({ cancel: null, responses: [] })
    expect(await suspending).toEqual({ cancel: null, responses: [] })
    expect(journal.dirty).toBe(true)
    const again = journal.suspend(suspension)
    expect(names(flights[1]?.write)).toEqual(['a'])
    flights[1]?.land()
    expect(await again).toBeUndefined()
    expect(journal.dirty).toBe(false)
  })

  it('P-05 a transaction takes along what was recorded before it, and leaves it unwritten where the transaction fails', async () => {
    const { journal } = staged()
    journal.append(record('before'))
    const { event, write } = journal.beginCommit(record('tx'))
    journal.append(record('after'))
    expect(write.events.map(({ name, seq }) => [name, seq])).toEqual([
      ['before', 1],
      ['tx', 2],
    ])
    expect(journal.dirty).toBe(true)
    journal.committed(event)
    journal.endCommit()
    const { write: later } = journal.beginCommit(record('next'))
    expect(names(later)).toEqual(['after', 'next'])
  })

  it('P-04 time never goes back, and is whole', () => {
    const { journal, setTime } = staged()
    expect(journal.at).toBe(500)
    setTime(700.9)
    expect(journal.append(record('a')).at).toBe(700)
    setTime(650)
    expect(journal.append(record('b')).at).toBe(700)
  })

  it('P-09 a record says which response was seen last, where that changed', () => {
    const { journal, state } = staged()
    expect(journal.append(record('a')).seen).toBeNull()
    state.receive([{ number: 1, name: '@child', data: {}, notes: null }])
    expect(journal.append(record('b')).seen).toBeNull()
    state.applyNext()
    expect(journal.append(record('c')).seen).toBe(1)
    expect(journal.append(record('d')).seen).toBeNull()
  })
})
