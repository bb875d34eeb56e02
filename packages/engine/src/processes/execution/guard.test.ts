import { types } from 'node:util'
import { describe, expect, it } from 'vitest'
import { createCodec, roundTrip } from '../../kernel/codec/codec.js'
import { StateGuard } from './guard.js'

const build = () => ({
  text: 'x',
  nested: { list: [{ n: 1 }, { n: 0 }], deep: { deeper: { n: 1 } } },
  when: new Date(5),
  map: new Map<string, { n: number }>([['a', { n: 1 }]]),
  set: new Set<unknown>([{ n: 1 }, 2]),
})
type State = ReturnType<typeof build>

const first = <T>(items: Iterable<T>): T => {
  const [item] = items
  if (item === undefined) throw new Error('empty')
  return item
}

const writes: [string, (state: State) => void][] = [
  [
    'a property',
    (s) => {
      s.text = 'y'
    },
  ],
  ['a new property', (s) => void Object.assign(s, { more: 1 })],
  ['a deletion', (s) => void Reflect.deleteProperty(s, 'text')],
  ['a definition', (s) => void Object.defineProperty(s, 'more', { value: 1, enumerable: true })],
  [
    'a nested property',
    (s) => {
      s.nested.deep.deeper.n = 2
    },
  ],
  ['push', (s) => void s.nested.list.push({ n: 2 })],
  ['reverse', (s) => void s.nested.list.reverse()],
  [
    'length',
    (s) => {
      s.nested.list.length = 0
    },
  ],
  [
    'an element',
    (s) => {
      first(s.nested.list).n = 2
    },
  ],
  [
    'an element of forEach',
    (s) =>
      s.nested.list.forEach((item) => {
        item.n = 2
      }),
  ],
  ['Map.set', (s) => void s.map.set('b', { n: 2 })],
  ['Map.delete', (s) => void s.map.delete('a')],
  ['Map.clear', (s) => s.map.clear()],
  ['a value of Map.get', (s) => void Object.assign(s.map.get('a') ?? {}, { n: 2 })],
  ['a value of Map.values', (s) => void Object.assign(first(s.map.values()), { n: 2 })],
  [
    'a value of Map.forEach',
    (s) =>
      s.map.forEach((value) => {
        value.n = 2
      }),
  ],
  [
    'a value of an iterated Map',
    (s) => {
      first(s.map)[1].n = 2
    },
  ],
  ['Set.add', (s) => void s.set.add(3)],
  ['Set.delete', (s) => void s.set.delete(2)],
  ['Set.clear', (s) => s.set.clear()],
  ['an item of a Set', (s) => void Object.assign(first(s.set) as object, { n: 2 })],
  ['Date.setTime', (s) => void s.when.setTime(6)],
  ['Date.setUTCFullYear', (s) => void s.when.setUTCFullYear(1999)],
]

describe('the guard of the state', () => {
  it.each(writes)('P-02 refuses while a step runs, and allows while execute runs: %s', (_, write) => {
    const guard = new StateGuard()
    const raw = build()
    const shown = guard.wrap(raw)
    expect(() => write(shown)).toThrow(expect.objectContaining({ code: 'HF_STATE_WRITE_IN_STEP' }))
    expect(raw).toEqual(build())
    guard.open = true
    write(shown)
    expect(raw).not.toEqual(build())
  })

  it('P-02 reading is always allowed', () => {
    const guard = new StateGuard()
    const raw = build()
    const shown = guard.wrap(raw)
    expect(shown).toEqual(raw)
    expect(JSON.stringify(shown)).toBe(JSON.stringify(raw))
    expect(Array.isArray(shown.nested.list)).toBe(true)
    expect(shown.nested.list).toBe(shown.nested.list)
    expect(shown.nested.list.includes(first(shown.nested.list))).toBe(true)
    expect([...shown.map.entries()]).toEqual([['a', { n: 1 }]])
    expect([...shown.map.keys()]).toEqual(['a'])
    expect(shown.map.has('a')).toBe(true)
    expect(shown.map.size).toBe(1)
    expect([...shown.set.keys()]).toEqual([{ n: 1 }, 2])
    expect([...shown.set.entries()][1]).toEqual([2, 2])
    expect(shown.set.has(first(shown.set))).toBe(true)
    expect(shown.when.getTime()).toBe(5)
    expect(roundTrip(createCodec(), shown)).toStrictEqual(raw)
  })

  it('P-02 guarded dates, maps and sets are still recognised as such', () => {
    const shown = new StateGuard().wrap(build())
    expect([types.isDate(shown.when), types.isMap(shown.map), types.isSet(shown.set)]).toEqual([true, true, true])
    expect(structuredClone(shown.when)).toEqual(new Date(5))
    expect(structuredClone(shown.map)).toEqual(new Map([['a', { n: 1 }]]))
  })

  it('a value that is put into the state is stored itself, not its guarded view', () => {
    const guard = new StateGuard()
    const raw: Record<string, unknown> = build()
    const shown = guard.wrap(raw)
    guard.open = true
    shown.again = shown.nested
    expect(raw.again).toBe(raw.nested)
    expect(guard.wrap(shown)).toBe(shown)
  })

  it('frozen values and objects of classes are shown as they are', () => {
    class Money {
      #amount = 5
      get amount() {
        return this.#amount
      }
    }
    const raw = { frozen: Object.freeze({ inner: { n: 1 }, when: Object.freeze(new Date(5)) }), money: new Money() }
    const shown = new StateGuard().wrap(raw)
    expect(shown.frozen.inner.n).toBe(1)
    expect(shown.frozen.when.getTime()).toBe(5)
    expect(shown.money.amount).toBe(5)
  })

  it('a date that is in one state after the other belongs to the last', () => {
    const shared = { at: new Date(5) }
    const earlier = new StateGuard()
    expect(earlier.wrap(shared).at.getTime()).toBe(5)
    const later = new StateGuard()
    const shown = later.wrap(shared)
    later.open = true
    expect(shown.at.setTime(7)).toBe(7)
    later.open = false
    expect(() => shown.at.setTime(8)).toThrow(/HF_STATE_WRITE_IN_STEP|setTime/)
  })
})
