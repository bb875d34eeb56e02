import { HoldfastError } from '../../kernel/errors.js'
import { guardBuiltIn } from './guard-built-ins.js'

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
  #handler = handlerFor(this)

  wrap<Value>(value: Value): Value
  wrap(value: unknown): unknown {
    if (typeof value !== 'object' || value === null || this.#targets.has(value)) return value
    if (guardBuiltIn(value, this) || !isPlain(value)) return value
    let proxy = this.#proxies.get(value)
    if (!proxy) {
      proxy = new Proxy(value, this.#handler)
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
