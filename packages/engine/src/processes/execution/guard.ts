import { HoldfastError } from '../../kernel/errors.js'
import { guardBuiltIn } from './guard-built-ins.js'

/**
 * The state as user code sees it. It may be written only while `execute` itself runs, which is between two records: what
 * a step's own code writes, or code that awaited something else than a call of `ctx`, would not be repeated by a replay
. The guard knows these moments, so no step needs to be watched.
 */
export class StateGuard {
  /** Whether `execute`, or a reducer, is running. */
  open = false
  /** Made for the first nested object: the garbage collector pays for weak maps, and many states are flat. */
  #nested: { readonly proxies: WeakMap<object, object>; readonly targets: WeakMap<object, object> } | undefined
  #handler = handlerFor(this)
  #root: { readonly target: object; readonly proxy: object } | undefined

  wrap<Value>(value: Value): Value
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
    if (guardBuiltIn(target, this) || !isPlain(target)) return target
    return new Proxy(target, this.#handler)
  }

  check(property: PropertyKey): void {
    if (!this.open) throw new HoldfastError('HF_STATE_WRITE_IN_STEP', { property: String(property) })
  }
}

/** Objects of a class may have private fields, which a proxy cannot reach: they are left as they are. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value)
  return Array.isArray(value) || prototype === Object.prototype || prototype === null
}

function handlerFor(guard: StateGuard): ProxyHandler<object> {
  return {
    get(target, property, receiver) {
      const value: unknown = Reflect.get(target, property, receiver)
      const wrapped = guard.wrap(value)
      // What is frozen has to be shown as it is: the language insists.
      return wrapped !== value && isFixed(target, property) ? value : wrapped
    },
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

function isFixed(target: object, property: PropertyKey): boolean {
  const own = Reflect.getOwnPropertyDescriptor(target, property)
  return own?.configurable === false && own.writable === false
}
