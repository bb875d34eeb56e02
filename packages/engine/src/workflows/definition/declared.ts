import type { StandardSchemaV1 } from '@standard-schema/spec'

declare const type: unique symbol

/** A type by itself, where no schema is at hand; made with `ofType`. */
export interface OfType<Value> {
  readonly [type]?: Value
}

/**
 * Declares a type where a workflow takes a schema or a type.
 *
 * @example
 * defineWorkflow('shop', 'order', { input: ofType<Order>() }).step('charge', 'ChargeCard', { output: ofType<Receipt>() })
 */
export function ofType<Value>(): OfType<Value> {
  return {}
}

/** A Standard Schema, or a type by itself. */
export type Declared = StandardSchemaV1 | OfType<unknown>
/** What is given where the type is declared: what the schema takes. */
export type Given<D> = D extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<D>
  : D extends OfType<infer V>
    ? V
    : never
/** What is received where the type is declared: what the schema makes of it. */
export type Received<D> = D extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<D>
  : D extends OfType<infer V>
    ? V
    : never
