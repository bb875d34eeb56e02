import { type Database, quoteIdentifier } from 'holdfast/internal'
import { SNAPSHOT_QUERIES } from './snapshot-queries.js'

/**
 * The schema as text, for people to read and for a test to compare: the same on every PostgreSQL from 14 on and
 * for every schema name.
 *
 * @example
 * await writeFile('sql/schema.sql', await describeSchema(db))
 */
export async function describeSchema(db: Database): Promise<string> {
  const parts = await db.transaction(async (tx) => {
    // With an empty path PostgreSQL writes every name in full; otherwise it would depend on the role's settings.
    await tx.query(
      "select pg_catalog.set_config('search_path', 'pg_catalog', true), pg_catalog.set_config('timezone', 'UTC', true)",
    )
    const sections: string[] = []
    for (const text of SNAPSHOT_QUERIES) {
      const { rows } = await tx.query(text, [db.schema])
      sections.push(...(rows as { definition: string }[]).map(({ definition }) => definition))
    }
    return sections
  })
  const text = parts.map((part) => withoutName(part, db.schema).trim()).join('\n\n')
  return `-- Made from the migrations by \`npm run schema\`; do not edit.\n\n${text}\n`
}

/** Quoted where our files named it, and as PostgreSQL quotes where it did. */
function withoutName(text: string, schema: string): string {
  const spelled = text.replaceAll(`${quoteIdentifier(schema)}.`, 'holdfast.')
  const plain = /^[a-z_][a-z0-9_$]*$/.test(schema)
  return plain
    ? spelled.replace(new RegExp(`(?<![\\w".])${schema.replaceAll('$', '\\$')}\\.`, 'g'), 'holdfast.')
    : spelled
}
