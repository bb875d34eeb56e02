// Mutations of TypeScript that are made by rule: each changes one place of the syntax tree.
import ts from 'typescript'

const BINARY = new Map([
  [ts.SyntaxKind.LessThanToken, '<='],
  [ts.SyntaxKind.LessThanEqualsToken, '<'],
  [ts.SyntaxKind.GreaterThanToken, '>='],
  [ts.SyntaxKind.GreaterThanEqualsToken, '>'],
  [ts.SyntaxKind.EqualsEqualsEqualsToken, '!=='],
  [ts.SyntaxKind.ExclamationEqualsEqualsToken, '==='],
  [ts.SyntaxKind.AmpersandAmpersandToken, '||'],
  [ts.SyntaxKind.BarBarToken, '&&'],
  [ts.SyntaxKind.PlusToken, '-'],
  [ts.SyntaxKind.MinusToken, '+'],
  [ts.SyntaxKind.AsteriskToken, '/'],
  [ts.SyntaxKind.SlashToken, '*'],
  [ts.SyntaxKind.AsteriskAsteriskToken, '*'],
])
const METHODS = new Map([
  ['some', 'every'],
  ['every', 'some'],
  ['min', 'max'],
  ['max', 'min'],
  ['floor', 'ceil'],
  ['startsWith', 'endsWith'],
  ['toSorted', 'toReversed'],
])

/** Every mutation of a source: where it is, and what stands there instead. */
export function mutationsOf(fileName, text) {
  const source = ts.createSourceFile(fileName, text, ts.ScriptTarget.Latest, true)
  const found = []
  const replace = (node, instead) => {
    const start = node.getStart(source)
    const { line } = source.getLineAndCharacterOfPosition(start)
    found.push({ start, end: node.getEnd(), instead, line: line + 1, was: text.slice(start, node.getEnd()) })
  }
  visit(source)
  return found

  function visit(node) {
    // Types are checked by the compiler, and messages are for people.
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isTypeAliasDeclaration(node)) return
    if (ts.isThrowStatement(node)) return
    mutate(node)
    ts.forEachChild(node, visit)
  }

  function mutate(node) {
    if (ts.isBinaryExpression(node) && BINARY.has(node.operatorToken.kind)) {
      const isText = [node.left, node.right].some(
        (side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side),
      )
      if (node.operatorToken.kind !== ts.SyntaxKind.PlusToken || !isText)
        replace(node.operatorToken, BINARY.get(node.operatorToken.kind))
    }
    if (ts.isIfStatement(node) || ts.isConditionalExpression(node)) {
      const condition = ts.isIfStatement(node) ? node.expression : node.condition
      replace(condition, 'true')
      replace(condition, 'false')
    }
    if (node.kind === ts.SyntaxKind.TrueKeyword) replace(node, 'false')
    if (node.kind === ts.SyntaxKind.FalseKeyword) replace(node, 'true')
    if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
      replace(node, node.operand.getText(source))
    if (ts.isNumericLiteral(node) && !ts.isElementAccessExpression(node.parent))
      replace(node, `(${node.getText(source)} + 1)`)
    if (ts.isPropertyAccessExpression(node) && ts.isCallExpression(node.parent) && METHODS.has(node.name.text))
      replace(node.name, METHODS.get(node.name.text))
  }
}
