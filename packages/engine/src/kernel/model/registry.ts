import { HoldfastError } from '../errors.js'
import type { Model } from './handle.js'

/** What a definition or a handler is known by. Handlers of workflow steps belong to no domain. */
export interface Registered {
  readonly domain?: string
  readonly type: string
}

/** What this program has of one kind, by its name: `domain/type`, or the type alone where there is no domain. */
export interface Registry<Item> {
  /** Refuses another item of the same name. */
  readonly add: (item: Item) => void
  /** Whether it was registered. Work that it runs continues. */
  remove(name: string): boolean
  readonly find: (name: string) => Item | undefined
  all(): readonly Item[]
  names(): readonly string[]
  readonly domains: () => readonly string[]
  inDomain(domain: string): readonly Item[]
  types(domain: string): readonly string[]
  /** Calls back for each item that is added from now on; returns how to stop that. */
  onAdded(listener: (item: Item) => void): () => void
}

interface Options<Item> {
  readonly named: (item: Item) => Registered
  /** Whether two items of one name are the same, so that adding it twice is allowed. Default: never. */
  readonly same?: (known: Item, added: Item) => boolean
}

/**
 * A registry of definitions or handlers. It is read before every claim, so reading costs no more than a look into a map.
 *
 * @example
 * const registry = createRegistry<ProcessDefinition>('processes', { named: (definition) => definition, same: Object.is })
 */
export function createRegistry<Item>(model: Model, { named, same = () => false }: Options<Item>): Registry<Item> {
  const items = new Map<string, Item>()
  const listeners = new Set<(item: Item) => void>()
  let names: readonly string[] = []
  let domains = new Map<string, { readonly items: Item[]; readonly types: string[] }>()

  function changed(): void {
    names = [...items.keys()].toSorted()
    domains = new Map()
    for (const item of items.values()) {
      const { domain, type } = named(item)
      if (domain === undefined) continue
      const known = domains.get(domain) ?? { items: [], types: [] }
      known.items.push(item)
      known.types.push(type)
      domains.set(domain, known)
    }
  }

  return {
    add(item) {
      const name = nameOf(named(item))
      const known = items.get(name)
      if (known && same(known, item)) return
      if (known) throw duplicate(model, named(item))
      items.set(name, item)
      changed()
      for (const listener of listeners) listener(item)
    },
    remove(name) {
      const there = items.delete(name)
      changed()
      return there
    },
    find: (name) => items.get(name),
    all: () => [...items.values()],
    names: () => names,
    domains: () => [...domains.keys()],
    inDomain: (domain) => domains.get(domain)?.items ?? [],
    types: (domain) => domains.get(domain)?.types ?? [],
    onAdded(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

/** The error for a second definition or handler of the same name. */
export function duplicate(model: Model, { domain, type }: Registered): HoldfastError<'HF_DUPLICATE_DEFINITION'> {
  return new HoldfastError('HF_DUPLICATE_DEFINITION', { model, ...(domain === undefined ? {} : { domain }), type })
}

function nameOf({ domain, type }: Registered): string {
  return domain === undefined ? type : `${domain}/${type}`
}
