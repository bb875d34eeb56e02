import type { Holdfast, ProcessDefinition } from 'holdfast'
import { withExecute } from 'holdfast/internal'
import { passPoint } from './living.js'

/**
 * An installation in which every piece of user code that calls the outside has fault points around it: `before call charge`,
 * and `after call charge`, when its effect has taken place and is not recorded yet. So a worker is killed in the middle
 * of calls too, and not only between statements of ours.
 */
export function withCallPoints(hf: Holdfast): Holdfast {
  const known = new Map<string, ProcessDefinition>()
  const ours = <Definition extends { readonly name: string }>(definition: Definition): Definition =>
    // Registered under the same name, it is the same definition with points in it.
    (known.get(definition.name) as unknown as Definition | undefined) ?? definition
  return {
    ...hf,
    register(definition) {
      const pointed = withExecute(definition, executeWithPoints)
      if (!pointed) return hf.register(definition)
      known.set(definition.name, pointed)
      hf.register(pointed as never)
    },
    start: ((definition: { readonly name: string }, ...rest: unknown[]) =>
      hf.start(ours(definition) as never, ...(rest as [never]))) as unknown as Holdfast['start'],
    handle: ((what: string | { readonly type: string }, code: AnyCode | Record<string, AnyCode>, options: never) => {
      const name = typeof what === 'string' ? what : what.type
      const pointed =
        typeof code === 'function' ? around(name, code) : mapValues(code, (one, handler) => around(handler, one))
      hf.handle(what as never, pointed as never, options)
    }) as Holdfast['handle'],
  }
}

type AnyCode = (...args: unknown[]) => unknown
type Execute = Parameters<Parameters<typeof withExecute>[1]>[0]

function around(name: string, code: AnyCode): AnyCode {
  return async (...args) => {
    await passPoint(`before call ${name}`)
    const answer = await code(...args)
    await passPoint(`after call ${name}`)
    return answer
  }
}

function executeWithPoints(execute: Execute): Execute {
  return (ctx, state) => execute(contextWithPoints(ctx), state)
}

type Context = Parameters<Execute>[0]

function contextWithPoints(ctx: Context): Context {
  const step: Context['step'] = (name, work, options = {}) =>
    ctx.step(name, around(name, work as AnyCode) as typeof work, {
      ...options,
      ...(options.compensate ? { compensate: around(`undo ${name}`, options.compensate as AnyCode) } : {}),
    })
  return new Proxy(ctx, {
    get(target, property) {
      if (property === 'step') return step
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function mapValues<T, U>(values: Readonly<Record<string, T>>, change: (value: T, key: string) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, change(value, key)]))
}
