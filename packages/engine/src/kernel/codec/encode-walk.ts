import { HoldfastError } from '../errors.js'
import { displayPath, toPointer } from '../validation/json-path.js'
import type { BuiltInName } from './built-in-types.js'
import type { Notes } from './notes.js'
import type { CodecType } from './type.js'

/** Deeper values are refused: `JSON.stringify` and everything after it would run out of stack at a few thousand. */
const deepest = 512

interface WalkOptions {
  readonly at: string
  readonly types: readonly CodecType[]
  readonly maxBytes: number
}

/**
 * One walk over one value: refuses what JSON cannot carry, and replaces what needs a note. Whatever needs none is
 * handed back as it is and never copied, so that a plain value costs the walk and nothing else.
 */
export class EncodeWalk {
  notes: Notes | null = null
  readonly #options: WalkOptions
  // Where the walk stands: `#keys` lead to the current value, `#parents` contain it. Kept as arrays with a depth, because
  // a path is needed only for notes and refusals, and most values have neither.
  readonly #keys: (string | number)[] = []
  readonly #parents: object[] = []
  #depth = 0
  /** The least that the JSON will take. Stops a huge value before its text is made. */
  #bytes = 0
  #insideType: string | undefined

  constructor(options: WalkOptions) {
    this.#options = options
  }

  replace(value: unknown): unknown {
    switch (typeof value) {
      case 'string':
        this.#weigh(value.length + 2)
        return value
      case 'number':
        return this.#number(value)
      case 'boolean':
        this.#weigh(4)
        return value
      case 'undefined':
        return this.#note('undefined', null)
      case 'bigint':
        return this.#note('bigint', value.toString())
      case 'object':
        return value === null ? null : this.#object(value)
      default:
        throw this.#refusal(`it is a ${typeof value}`)
    }
  }

  #number(value: number): number {
    this.#weigh(1)
    if (!Number.isFinite(value)) throw this.#refusal(`${value} is not a JSON number`)
    // jsonb has no negative zero.
    return Object.is(value, -0) ? this.#note('-0', 0) : value
  }

  #object(value: object): unknown {
    if (isPlain(value)) return this.#plain(value)
    if (Array.isArray(value) && Object.getPrototypeOf(value) === Array.prototype) return this.#array(value, value)
    return this.#instance(value)
  }

  #plain(value: Record<string, unknown>): object {
    this.#enter(value)
    let copy: Record<string, unknown> | undefined
    // `for in` makes no list of the keys: with Object.entries() the whole encoding takes half as long again.
    for (const key in value) {
      const part = value[key]
      // As in JSON, a property that is undefined is the same as none.
      if (part === undefined || !Object.hasOwn(value, key)) continue
      this.#weigh(key.length + 3)
      this.#keys[this.#depth - 1] = key
      const json = this.replace(part)
      if (json === part) continue
      // A spread makes the key an own one, so this sets a key even where it is called `__proto__`.
      copy ??= { ...value }
      copy[key] = json
    }
    this.#depth--
    return copy ?? value
  }

  /** `identity` is what a circle would lead back to: the array itself, or the map or set it was made from. */
  #array(array: readonly unknown[], identity: object): readonly unknown[] {
    this.#enter(identity)
    let copy: unknown[] | undefined
    for (let index = 0; index < array.length; index++) {
      const part = array[index]
      this.#keys[this.#depth - 1] = index
      const json = this.replace(part)
      // Up to here only: the rest may be a few thousand million holes, on which the walk gives up soon.
      if (json !== part) copy ??= array.slice(0, index)
      copy?.push(json)
    }
    this.#depth--
    return copy ?? array
  }

  #instance(value: object): unknown {
    if (this.#insideType !== undefined) throw this.#notPlain(this.#insideType)
    for (const type of this.#options.types) {
      const json = this.#ask(type, value)
      if (json !== undefined) return this.#registered(type, json)
    }
    const prototype: unknown = Object.getPrototypeOf(value)
    // Exactly these classes: an instance of a subclass would come back as its parent, so its type has to be registered.
    if (value instanceof Date && prototype === Date.prototype) return this.#date(value)
    if (value instanceof Map && prototype === Map.prototype) return this.#note('map', this.#array([...value], value))
    if (value instanceof Set && prototype === Set.prototype) return this.#note('set', this.#array([...value], value))
    if (value instanceof Buffer && prototype === Buffer.prototype) return this.#base64('buffer', value)
    if (value instanceof Uint8Array && prototype === Uint8Array.prototype) return this.#base64('bytes', value)
    if (isForeignArray(value)) return this.#array(value, value)
    if (isForeignPlain(value)) return this.#plain(value)
    if (value instanceof Promise) throw this.#refusal('it is a promise: await it first')
    if (isHandle(value))
      throw this.#refusal('it is a handle: return or store its `id`, and make a handle of that again')
    const name: unknown = value.constructor?.name
    const what = typeof name === 'string' && name !== '' ? name : 'an unnamed class'
    throw this.#refusal(`it is an instance of ${what}: register its type with the codec, or convert it to plain data`)
  }

  #date(value: Date): unknown {
    if (Number.isNaN(value.getTime())) throw this.#refusal('it is an invalid Date')
    return this.#note('date', value.toISOString())
  }

  #base64(name: 'buffer' | 'bytes', value: Uint8Array): unknown {
    this.#weigh(value.byteLength)
    return this.#note(name, Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64'))
  }

  #ask(type: CodecType, value: object): unknown {
    try {
      return type.encode(value)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw this.#refusal(`its type '${type.name}' could not encode it: ${reason}`, cause)
    }
  }

  #registered(type: CodecType, json: unknown): unknown {
    this.#insideType = type.name
    const plain = this.replace(json)
    this.#insideType = undefined
    return this.#note(type.name, plain)
  }

  #enter(value: object): void {
    this.#weigh(2)
    if (this.#depth >= deepest) throw this.#refusal(`it is nested deeper than ${deepest} levels`)
    for (let depth = this.#depth - 1; depth >= 0; depth--) {
      if (this.#parents[depth] !== value) continue
      throw this.#refusal(`it refers back to ${displayPath(this.#options.at, this.#keys.slice(0, depth))}, a circle`)
    }
    this.#parents[this.#depth] = value
    this.#depth++
  }

  #note<Stored>(name: BuiltInName | (string & {}), json: Stored): Stored {
    if (this.#insideType !== undefined) throw this.#notPlain(this.#insideType)
    const pointer = toPointer(this.#keys.slice(0, this.#depth))
    this.#weigh(pointer.length + name.length)
    this.notes ??= {}
    this.notes[pointer] = name
    return json
  }

  #weigh(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes > this.#options.maxBytes) throw this.#tooLarge()
  }

  #tooLarge(): HoldfastError {
    const { at, maxBytes } = this.#options
    return new HoldfastError('HF_TOO_LARGE', { path: at, bytes: this.#bytes, limit: maxBytes, atLeast: true })
  }

  #notPlain(type: string): HoldfastError {
    return this.#refusal(`its type '${type}' encoded it to something that is not plain JSON`)
  }

  #refusal(problem: string, cause?: unknown): HoldfastError {
    const path = displayPath(this.#options.at, this.#keys.slice(0, this.#depth))
    return new HoldfastError('HF_NOT_ENCODABLE', { path, problem }, cause === undefined ? undefined : { cause })
  }
}

/** Handles of work stand in a higher room; all have these. */
const isHandle = (value: object): boolean =>
  'id' in value && ['result', 'history', 'why'].every((method) => typeof Reflect.get(value, method) === 'function')

function isPlain(value: object): value is Record<string, unknown> {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

// Plain objects and arrays of another realm (`node:vm`, Jest) have prototypes that are not ours.

function isForeignPlain(value: object): value is Record<string, unknown> {
  const prototype: object = Object.getPrototypeOf(value)
  return Object.getPrototypeOf(prototype) === null && prototype.constructor?.name === 'Object'
}

function isForeignArray(value: object): value is readonly unknown[] {
  const prototype: object = Object.getPrototypeOf(value)
  return Array.isArray(value) && Array.isArray(prototype) && prototype.constructor?.name === 'Array'
}
