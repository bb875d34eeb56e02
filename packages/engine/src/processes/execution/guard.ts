import { HoldfastError } from '../../kernel/errors.js'

/**
 * The state as user code sees it. It may be written only while `execute` itself runs, which is between two records: what
 * a step's own code writes, or code that awaited something else than a call of `ctx`, would not be repeated by a replay
 * (P-02). The guard knows these moments, so no step needs to be watched.
 */
export class StateGuard {
  /** Whether `execute`, or a reducer, is running. */
  open = false
  /** Made for the first nested object: the garbage collector pays for weak maps, and many states are flat. */
  #nested: { readonly proxies: WeakMap<object, object>; readonly targets: WeakMap<object, object> } | undefined
  #root: { readonly target: object; readonly proxy: object } | undefined

  wrap(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    if (!this.#root) return this.#wrapRoot(value)
    if (value === this.#root.target || value === this.#root.proxy) return this.#root.proxy
    const nested = this.#nested
    if (nested?.targets.has(value)) return value
    return nested?.proxies.get(value) ?? this.#wrapNested(value)
  }

  unwrap(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    return value === this.#root?.proxy ? this.#root.target : (this.#nested?.targets.get(value) ?? value)
  }

  #wrapRoot(target: object): object {
    const proxy = this.#proxyOf(target)
    this.#root = { target, proxy }
    return proxy
  }

  #wrapNested(target: object): object {
    const proxy = this.#proxyOf(target)
    if (proxy === target) return target
    this.#nested ??= { proxies: new WeakMap(), targets: new WeakMap() }
    this.#nested.proxies.set(target, proxy)
    this.#nested.targets.set(proxy, target)
    return proxy
  }

  #proxyOf(target: object): object {
    const handler = handlerFor(target, this)
    return handler ? new Proxy(target, handler) : target
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
