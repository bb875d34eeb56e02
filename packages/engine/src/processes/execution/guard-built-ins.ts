/** What is asked of the guard of the state. */
interface Guard {
  wrap<Value>(value: Value): Value
  unwrap(value: unknown): unknown
  check(property: PropertyKey): void
}

/** Whose state it was seen in last: a constant of the program may be put into one state after the other. */
const guards = new WeakMap<object, Guard>()

/**
 * Dates, maps and sets keep what they hold where a proxy cannot reach it, and others tell them by that (drivers,
 * `structuredClone`): they stay what they are, and get guarded methods of their own. True when the value is one.
 */
export function guardBuiltIn(value: object, guard: Guard): boolean {
  const methods = methodsFor(value)
  if (!methods) return false
  if (!Object.isExtensible(value)) return true
  const known = guards.has(value)
  guards.set(value, guard)
  if (known) return true
  for (const [name, method] of methods()) {
    Object.defineProperty(value, name, { value: method, configurable: true, writable: true, enumerable: false })
  }
  return true
}

type Method = readonly [name: PropertyKey, method: (...args: never[]) => unknown]

function methodsFor(value: object): (() => Method[]) | undefined {
  const guard: Guard = {
    check: (property) => guards.get(value)?.check(property),
    wrap: (part) => guards.get(value)?.wrap(part) ?? part,
    unwrap: (part) => guards.get(value)?.unwrap(part) ?? part,
  }
  if (value instanceof Date) return () => setters(value, guard)
  if (value instanceof Map) return () => mapMethods(value, guard)
  if (value instanceof Set) return () => setMethods(value, guard)
  return undefined
}

const dateSetters = Object.getOwnPropertyNames(Date.prototype).filter((name) => name.startsWith('set'))

function setters(date: Date, guard: Guard): Method[] {
  return dateSetters.map((name) => {
    const method: unknown = Reflect.get(Date.prototype, name)
    return [
      name,
      (...args: unknown[]) => {
        guard.check(name)
        return typeof method === 'function' ? Reflect.apply(method, date, args) : undefined
      },
    ]
  })
}

function mapMethods(map: Map<unknown, unknown>, guard: Guard): Method[] {
  const { prototype } = Map
  function* entries(): Generator<[unknown, unknown]> {
    for (const [key, value] of prototype.entries.call(map)) yield [guard.wrap(key), guard.wrap(value)]
  }
  return [
    ['get', (key: unknown) => guard.wrap(prototype.get.call(map, guard.unwrap(key)))],
    ['has', (key: unknown) => prototype.has.call(map, guard.unwrap(key))],
    ['entries', entries],
    [Symbol.iterator, entries],
    ['keys', () => mapped(entries(), ([key]) => key)],
    ['values', () => mapped(entries(), ([, value]) => value)],
    [
      'forEach',
      (each: (value: unknown, key: unknown, of: unknown) => void) => {
        for (const [key, value] of entries()) each(value, key, map)
      },
    ],
    [
      'set',
      (key: unknown, value: unknown) => {
        guard.check('set')
        return prototype.set.call(map, guard.unwrap(key), guard.unwrap(value))
      },
    ],
    ...removals(map, prototype, guard),
  ]
}

function setMethods(set: Set<unknown>, guard: Guard): Method[] {
  const { prototype } = Set
  const values = () => mapped(prototype.values.call(set), (value) => guard.wrap(value))
  return [
    ['has', (value: unknown) => prototype.has.call(set, guard.unwrap(value))],
    ['values', values],
    ['keys', values],
    [Symbol.iterator, values],
    ['entries', () => mapped(values(), (value) => [value, value])],
    [
      'forEach',
      (each: (value: unknown, same: unknown, of: unknown) => void) => {
        for (const value of values()) each(value, value, set)
      },
    ],
    [
      'add',
      (value: unknown) => {
        guard.check('add')
        return prototype.add.call(set, guard.unwrap(value))
      },
    ],
    ...removals(set, prototype, guard),
  ]
}

type Removing = Pick<Set<unknown>, 'delete' | 'clear'>

function removals(collection: Removing, prototype: Removing, guard: Guard): Method[] {
  return [
    [
      'delete',
      (key: unknown) => {
        guard.check('delete')
        return prototype.delete.call(collection, guard.unwrap(key))
      },
    ],
    [
      'clear',
      () => {
        guard.check('clear')
        prototype.clear.call(collection)
      },
    ],
  ]
}

function* mapped<Item, Shown>(items: Iterable<Item>, show: (item: Item) => Shown): Generator<Shown> {
  for (const item of items) yield show(item)
}
