/** One statement of a file, with the line it begins on. */
export interface FileStatement {
  readonly text: string
  readonly line: number
}

/**
 * What hides a semicolon: comments, texts, quoted names and dollar-quoted bodies. Block comments nest in PostgreSQL,
 * which a pattern cannot follow; ours do not.
 */
const HIDDEN = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$[\s\S]*?\$\1\$/g

/** The text with everything that is no statement replaced by underscores: the same length, and no semicolon but real ones. */
export function maskHidden(sql: string): string {
  return sql.replace(HIDDEN, (found) => found.replace(/[^\n]/g, /^(--|\/\*)/.test(found) ? ' ' : '_'))
}

/** Splits a file into its statements. For online files only: a transaction takes a file as a whole. */
export function splitStatements(sql: string): FileStatement[] {
  // The same length, so that positions and lines stay; only comments vanish from what is run.
  const masked = maskHidden(sql)
  const visible = sql.replace(HIDDEN, (found) => (/^(--|\/\*)/.test(found) ? found.replace(/[^\n]/g, ' ') : found))
  const statements: FileStatement[] = []
  let start = 0
  for (const part of masked.split(';')) {
    const raw = visible.slice(start, start + part.length)
    const text = raw.trim()
    const lead = start + raw.length - raw.trimStart().length
    if (text !== '') statements.push({ text, line: sql.slice(0, lead).split('\n').length })
    start += part.length + 1
  }
  return statements
}
