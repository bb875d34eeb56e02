import { HoldfastError } from '../../kernel/errors.js'

/**
 * The state as user code sees it. It may be written only while `execute` itself runs, which is between two records: what
 * a step's own code writes, or code that awaited something else than a call of `ctx`, would not be repeated by a replay
 * (P-02). The guard knows these moments, so no step needs to be watched.
 */
export class StateGuard {
  /** Whether `execute`, or a reducer, is running. */
  open = false
  #proxies = new WeakMap<object, object>()
  #targets = new WeakMap<object, object>()

  wrap(value: unknown): unknown {
    if (typeof value !== 'object' || value === null || this.#targets.has(value)) return value
    const handler = handlerFor(value, this)
    if (!handler) return value
    let proxy = this.#proxies.get(value)
    if (!proxy) {
      proxy = new Proxy(value, handler)
      this.#proxies.set(value, proxy)
      this.#targets.set(proxy, value)
    }
    return proxy
  }

  unwrap(value: unknown): unknown {
    return typeof value === 'object' && value !== null ? (this.#targets.get(value) ?? value) : value
  }

  check(property: PropertyKey): void {
    if (!this.open) throw new HoldfastError('HF_STATE_WRITE_IN_STEP', { property: String(property) })
  }
}

const mutators = /^(set|add|delete|clear$)/

function handlerFor(value: object, guard: StateGuard): ProxyHandler<object> | undefined {
  if (value instanceof Map || value instanceof Set || value instanceof Date) return methodsOf(guard)
  const prototype = Object.getPrototypeOf(value)
  // Objects of a class may have private fields, which a proxy cannot reach: they are left as they are.
  return Array.isArray(value) || prototype === Object.prototype || prototype === null ? propertiesOf(guard) : undefined
}

function propertiesOf(guard: StateGuard): ProxyHandler<object> {
  return {
    get: (target, property, receiver) => guard.wrap(Reflect.get(target, property, receiver)),
    set(target, property, value) {
      guard.check(property)
      return Reflect.set(target, property, guard.unwrap(value))
    },
    deleteProperty(target, property) {
      guard.check(property)
      return Reflect.deleteProperty(target, property)
    },
    defineProperty(target, property, descriptor) {
      guard.check(property)
      return Reflect.defineProperty(target, property, descriptor)
    },
  }
}

function methodsOf(guard: StateGuard): ProxyHandler<object> {
  return {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]): unknown => {
        if (typeof property === 'string' && mutators.test(property)) guard.check(property)
        return guard.wrap(Reflect.apply(value, target, args))
      }
    },
  }
}
