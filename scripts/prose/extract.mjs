import { basename } from 'node:path'
import ts from 'typescript'

/** The prose of a file, piece by piece: comments and sentences in strings of code, the text of a page without its code. */
export function proseOf(file, source) {
  if (file.endsWith('.md')) return proseOfPage(source)
  return file.endsWith('.sql') ? proseOfSql(source) : proseOfCode(file, source)
}

/** The titles of tests and of their groups. */
export function titlesOf(file, source) {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true)
  const titles = []
  const visit = (node) => {
    const [title] = ts.isCallExpression(node) && isTest(node) ? node.arguments : []
    if (title && ts.isStringLiteralLike(title)) {
      const line = tree.getLineAndCharacterOfPosition(title.getStart(tree)).line + 1
      titles.push({ line, text: withoutCode(title.text) })
    }
    ts.forEachChild(node, visit)
  }
  visit(tree)
  return titles
}

/** `test('…')`, `it.each(…)('…')` and the like. */
function isTest({ expression }) {
  let root = expression
  while (ts.isCallExpression(root) || ts.isPropertyAccessExpression(root)) root = root.expression
  return ts.isIdentifier(root) && /^(test|it|describe)$/.test(root.text)
}

/** Names that others read: the file's, and what it exports. */
export function namesOf(file, source) {
  const name = basename(file)
  const ofFile = { line: 1, name, text: name.replace(/[-.]/g, ' ') }
  return /\.(md|sql)$/.test(file) ? [ofFile] : [ofFile, ...exportsOf(file, source)]
}

/** Comments of SQL, except for the header lines that the migration runner reads. */
function proseOfSql(source) {
  return source.split('\n').flatMap((line, index) => {
    const [, text] = /^\s*-- (?!(?:revision|after|release|planner|online):?)(.*)/.exec(line) ?? []
    return text === undefined ? [] : [{ line: index + 1, text: withoutCode(text), isJsDoc: false }]
  })
}

function proseOfPage(source) {
  let inCode = false
  return source.split('\n').flatMap((text, index) => {
    if (/^\s*```/.test(text)) {
      inCode = !inCode
      return []
    }
    return inCode ? [] : [{ line: index + 1, text: withoutCode(text), isJsDoc: false }]
  })
}

function proseOfCode(file, source) {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true)
  const lineOf = (position) => tree.getLineAndCharacterOfPosition(position).line + 1
  const pieces = new Map()
  const addComments = (ranges) => {
    for (const { pos, end } of ranges ?? []) {
      const text = source.slice(pos, end)
      const isJsDoc = text.startsWith('/**')
      if (/^\/\/ (biome|oxlint|@ts)|^\/\/\/ </.test(text)) continue
      for (const [nth, one] of text.split('\n').entries()) {
        pieces.set(`${pos}.${nth}`, {
          line: lineOf(pos) + nth,
          text: withoutCode(withoutExample(text, nth, one)),
          isJsDoc,
        })
      }
    }
  }
  const visit = (node) => {
    addComments(ts.getLeadingCommentRanges(source, node.getFullStart()))
    addComments(ts.getTrailingCommentRanges(source, node.getEnd()))
    if (isSentence(node)) {
      pieces.set(`${node.pos}`, { line: lineOf(node.getStart(tree)), text: withoutCode(node.text), isJsDoc: false })
    }
    ts.forEachChild(node, visit)
  }
  visit(tree)
  return [...pieces.values()]
}

/** An example of JSDoc is code from its tag to the next tag or the end. */
function withoutExample(comment, nth, line) {
  const before = comment.split('\n').slice(0, nth + 1)
  const tags = before.filter((one) => /^\s*\/?\*+ @/.test(one))
  return /@example/.test(tags.at(-1) ?? '') ? '' : line
}

/** Strings of three words or more are messages, unless they are SQL. */
function isSentence(node) {
  if (!ts.isStringLiteral(node) && !ts.isTemplateLiteralToken(node)) return false
  return (
    /[a-z]+ [a-z]+ [a-z]+/.test(node.text) &&
    !/\b(select|insert|update|delete|create|from|where|join|returning)\b/.test(node.text)
  )
}

function exportsOf(file, source) {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true)
  return tree.statements
    .filter((statement) => statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword))
    .flatMap((statement) => {
      const declared = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [statement]
      return [...declared, ...(statement.members ?? [])]
    })
    .filter((node) => node.name && ts.isIdentifier(node.name))
    .map(({ name }) => ({
      line: tree.getLineAndCharacterOfPosition(name.getStart(tree)).line + 1,
      name: name.text,
      text: name.text.replace(/([a-z])([A-Z])/g, '$1 $2').replace(/_/g, ' '),
    }))
}

/** Without code in back quotes, addresses and the targets of links. */
function withoutCode(text) {
  return text
    .replace(/`[^`]*`/g, ' ')
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/\bhttps?:\S+/g, ' ')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\{@link [^}]*\}/g, ' ')
}
