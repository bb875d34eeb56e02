import { invalidOption } from '../validation/invalid-option.js'
import { unstorableIn } from '../validation/storable-text.js'

/** PostgreSQL cuts longer names off without an error, and two installations would share one schema. */
const MAX_BYTES = 63

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function checkSchemaName(schema: string): string {
  const problem = problemOf(schema)
  if (problem) throw invalidOption('holdfast', 'schema', problem)
  return schema
}

function problemOf(schema: string): string | undefined {
  if (typeof schema !== 'string' || schema === '') return 'must be the name of a schema, not empty'
  // The name goes into comments, which end with the line, and into function bodies, which end with two dollar signs.
  if (/\p{Cc}/u.test(schema)) return 'holds a control character'
  const bad = unstorableIn(schema)
  if (bad !== undefined) return `contains ${bad}, which PostgreSQL cannot hold`
  if (schema.includes('$$')) return 'holds `$$`'
  if (Buffer.byteLength(schema) > MAX_BYTES) return `is longer than ${MAX_BYTES} bytes`
  if (schema.startsWith('pg_')) return 'begins with `pg_`, which PostgreSQL keeps for itself'
  return undefined
}

/**
 * Puts the schema really in use where our SQL says `holdfast.`, also inside function bodies. Right after a quote
 * (`'holdfast.clock'::regclass`) it is inside a literal, so the name's own quotes are doubled there.
 *
 * @example
 * schemaNaming('pay')('select * from holdfast.clock')  // select * from "pay".clock
 */
export function schemaNaming(schema: string): (text: string) => string {
  const quoted = `${quoteIdentifier(schema)}.`
  const inLiteral = `'${quoted.replaceAll("'", "''")}`
  // Our texts are constants of the program, so the cache is bounded by its size.
  const named = new Map<string, string>()
  return (text) => {
    let result = named.get(text)
    if (result === undefined) {
      result = text.replace(/'?\bholdfast\./g, (found) => (found.startsWith("'") ? inLiteral : quoted))
      named.set(text, result)
    }
    return result
  }
}
