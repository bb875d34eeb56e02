import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

/**
 * Every SQL statement that the library sends, read from its source. Statements are constants, so nothing has to run to find them, and
 * none can be missed because a test does not reach it.
 */
export interface ClientStatement {
  /** File and line. */
  readonly place: string
  readonly text: string
}

const SOURCE = fileURLToPath(new URL('../../', import.meta.url))
const SQL = /^\s*((select|insert|update|delete)\s|with\s+(recursive\s|\w+\s+(as|\()))/

type Samples = Readonly<Record<string, string>>

/** Pieces that are known only when the program runs, each with one or more samples. A new one fails the test until it has a sample here. */
const SAMPLES: Readonly<Record<string, Samples | readonly Samples[]>> = {
  'kernel/model/bulk.ts': [
    {
      from: `join holdfast.command_trouble as trouble
        on trouble.command_id = asked.id::uuid and trouble.domain || '/' || trouble.type = $1`,
      since: 'trouble.since',
      of: 'trouble',
    },
    {
      from: `join holdfast.process on process.id = asked.id::uuid
        join holdfast.process_trouble as trouble on trouble.id = asked.id::uuid and trouble.type = $1`,
      since: 'trouble.since',
      of: 'process, trouble',
    },
    {
      from: `join holdfast.workflow on workflow.id = asked.id::uuid
        join holdfast.workflow_dead_letter as letter on letter.workflow_id = asked.id::uuid and letter.step = asked.step
          and case when pg_catalog.strpos(letter.workflow_name, '/') = 0 then 'default/' else '' end || letter.workflow_name = $1`,
      since: 'letter.created_at',
      of: 'workflow, letter',
    },
    {
      from: `join holdfast.dispatch_item as item on item.item_type = $1 and item.item_id = asked.id collate "C"
        join holdfast.dispatch_dead_letter as letter on letter.item_type = $1 and letter.item_id = asked.id collate "C"`,
      since: 'letter.since',
      of: 'item, letter',
    },
  ],
  'kernel/work/table-leases.ts': { name: 'processes', key: 'uuid' },
  'trouble/queries/find-trouble.ts': {
    conditions: `model = any ($1::text[]) and (model, place, since) in (select model, place, since from holdfast.trouble_assignment where assigned_to = $2)
      and (since, place) < (timestamptz '1970-01-01 00:00:00+00' + $3::float8 * interval '1 microsecond', $4::text collate "C")`,
    limit: '5',
  },
  'workflows/queries/find-instances.ts': {
    'namesOf(conditions)': `(
        select distinct name from holdfast.workflow_definition
        where pg_catalog.split_part(name, '/', 1) = $2 and pg_catalog.split_part(name, '/', 2) = $3
      ) as known`,
    "['workflow.name = known.name', ...conditions.ofInstances, ...after].join(' and ')": `
      workflow.name = known.name and version = $4 and key = $5 and status = $6 and created_at >= $7 and created_at < $8
      and (created_at, id) < (
        coalesce((select created_at from holdfast.workflow where id = $10::uuid), $9::timestamptz + interval '1 ms'), $10::uuid
      )`,
    "['workflow.name = known.name', ...conditions.ofInstances].join(' and ')": `
      workflow.name = known.name and version = $1 and key = $4 and status = $5 and created_at >= $6 and created_at < $7`,
  },
}

/** Not sent by an installation at work: the script that renews sql/schema.sql, which sets its search path itself. */
const LEFT_OUT = ['kernel/migrations/snapshot-queries.ts', 'kernel/errors.ts', 'queue/names.ts']

export function clientStatements(): ClientStatement[] {
  const sources = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /(?<!\.(test|fixture))\.ts$/.test(file) && !LEFT_OUT.includes(file))
    .sort()
    .map((file) => ts.createSourceFile(file, readFileSync(`${SOURCE}${file}`, 'utf8'), ts.ScriptTarget.Latest, true))
  const imported = new Map(sources.flatMap((source) => [...constantsOf(source)]))
  return sources.flatMap((source) => statementsOf(source, imported))
}

function statementsOf(source: ts.SourceFile, imported: ReadonlyMap<string, ts.Expression>): ClientStatement[] {
  const file = source.fileName
  const constants = new Map([...imported, ...constantsOf(source)])
  const found: ClientStatement[] = []
  const visit = (node: ts.Node): void => {
    if (isText(node) && !ts.isTemplateSpan(node.parent) && SQL.test(beginningOf(node))) {
      const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1
      const place = `${file}:${line}`
      for (const [nth, samples] of [SAMPLES[file] ?? {}].flat().entries()) {
        found.push({
          place: nth === 0 ? place : `${place} (${nth + 1})`,
          text: textOf(node, constants, samples, place),
        })
      }
    }
    node.forEachChild(visit)
  }
  visit(source)
  return found
}

function constantsOf(source: ts.SourceFile): Map<string, ts.Expression> {
  const constants = new Map<string, ts.Expression>()
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && node.initializer && isText(node.initializer)) {
      constants.set(node.name.getText(), node.initializer)
    }
    node.forEachChild(visit)
  }
  visit(source)
  return constants
}

const isText = (node: ts.Node): node is ts.StringLiteralLike | ts.TemplateExpression =>
  ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)

const beginningOf = (node: ts.StringLiteralLike | ts.TemplateExpression): string =>
  ts.isTemplateExpression(node) ? `${node.head.text} ` : node.text

function textOf(
  node: ts.Expression,
  constants: ReadonlyMap<string, ts.Expression>,
  samples: Readonly<Record<string, string>>,
  place: string,
): string {
  if (ts.isStringLiteralLike(node)) return node.text
  if (ts.isTemplateExpression(node)) {
    const pieces = node.templateSpans.map(
      ({ expression, literal }) => textOf(expression, constants, samples, place) + literal.text,
    )
    return node.head.text + pieces.join('')
  }
  const sample = samples[node.getText()]
  if (sample !== undefined) return sample
  const constant = constants.get(node.getText())
  if (constant) return textOf(constant, constants, samples, place)
  throw new Error(`${place}: no sample for \${${node.getText()}}`)
}

/** Words that are followed by a parenthesis and call nothing by a name that could be looked up. */
const SYNTAX = new Set(
  `and any array as coalesce conflict exists extract from greatest in join lateral least materialized nullif on or over select then using
   values when where within filter not all`.split(/\s+/),
)

/** Functions that a statement calls without naming their schema. */
export function unqualifiedCalls(text: string): string[] {
  const bare = text.replace(/'(?:[^']|'')*'/g, "''").replace(/--.*$/gm, '')
  // Right after `as` it is an alias with names of columns.
  return [...bare.matchAll(/(?<![.\w"$])(?<!\bas\s+)([a-z_][a-z0-9_]*)\s*\(/g)]
    .map(([, name]) => name as string)
    .filter((name) => !SYNTAX.has(name))
}
