/** All that users see of a definition, besides its types. */
export interface Defined<Kind extends string = string> {
  readonly kind: Kind
  readonly domain: string
  readonly type: string
  /** `domain/type` */
  readonly name: string
  readonly version: number
}

/** What the engine alone reads of the definitions of one kind. */
export interface DefinedOf<Inside extends Defined> {
  /** Makes the object that users hold: it has names, a version and types, and nothing else. */
  readonly publish: (inside: Inside) => Defined<Inside['kind']>
  /** What the engine reads of it; undefined for anything that was not made by the define function. */
  readonly of: (definition: unknown) => Inside | undefined
}

/**
 * Keeps the inside of definitions away from the objects that users hold.
 *
 * @example
 * const processes = createDefined<DefinedProcess>()
 * export const definedProcess = processes.of
 */
export function createDefined<Inside extends Defined>(): DefinedOf<Inside> {
  const known = new WeakMap<object, Inside>()
  return {
    publish(inside) {
      const { kind, domain, type, name, version } = inside
      const shown: Defined<Inside['kind']> = Object.freeze({ kind, domain, type, name, version })
      known.set(shown, inside).set(inside, inside)
      return shown
    },
    of: (definition) => (typeof definition === 'object' && definition !== null ? known.get(definition) : undefined),
  }
}
