// Parses the text of a condition into an expression, which `evaluate.ts` runs. Only `condition.ts` calls it. Pure.
// Conditions are stored in definitions: a text that parsed once must keep parsing, with the same meaning.

import { nearestName } from '../../kernel/validation/nearest.js'
import { parseDecimal } from './decimal.js'
import { malformed } from './malformed.js'
import { type Token, tokenize } from './tokens.js'
import { unquote } from './unquote.js'
import { booleanValue, missing, textValue, type Value } from './value.js'

/** The functions, and how many values each takes. */
const arities = {
  eq: [2, 100],
  ne: [2, 2],
  gt: [2, 2],
  lt: [2, 2],
  ge: [2, 2],
  le: [2, 2],
  and: [1, 100],
  or: [1, 100],
  not: [1, 1],
  contains: [2, 2],
  hasPrefix: [2, 2],
  hasSuffix: [2, 2],
} as const satisfies Record<string, readonly [number, number]>

export type FunctionName = keyof typeof arities
const functionNames = Object.keys(arities)
const isFunction = (word: string): word is FunctionName => Object.hasOwn(arities, word)

/** An expression as a tree; `at` is the place in the text, for messages. */
export type Expression =
  | { readonly kind: 'literal'; readonly at: number; readonly value: Value }
  | { readonly kind: 'field'; readonly at: number; readonly path: readonly string[] }
  | { readonly kind: 'call'; readonly at: number; readonly name: FunctionName; readonly args: readonly Expression[] }

const DEEPEST = 100

/** Reads an expression, or refuses it with the place and the reason. */
export function parseExpression(text: string): Expression {
  const parser = new Parser(text)
  return parser.whole()
}

class Parser {
  readonly #text: string
  readonly #tokens: readonly Token[]
  #next = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
    this.#tokens = tokenize(text)
  }

  whole(): Expression {
    if (this.#peek().kind === 'end') throw this.#error(this.#peek(), 'is empty')
    const expression = this.#expression()
    const rest = this.#peek()
    if (rest.kind === 'close') throw this.#error(rest, 'closes a parenthesis that was not opened')
    if (rest.kind !== 'end')
      throw this.#error(rest, 'is left over: a call begins with its function, as `gt .amount 100`')
    return expression
  }

  #expression(): Expression {
    const token = this.#peek()
    return token.kind === 'word' && constants[token.text] === undefined ? this.#call() : this.#operand()
  }

  #call(): Expression {
    const token = this.#take()
    const name = token.text
    if (!isFunction(name)) throw this.#error(token, unknownFunction(name))
    const args: Expression[] = []
    while (this.#peek().kind !== 'close' && this.#peek().kind !== 'end') args.push(this.#operand())
    const [least, most] = arities[name]
    if (args.length < least || args.length > most) {
      throw this.#error(token, `\`${name}\` takes ${howMany(least, most)}, not ${args.length}`)
    }
    return { kind: 'call', at: token.at, name, args }
  }

  #operand(): Expression {
    const token = this.#take()
    const { at, text } = token
    switch (token.kind) {
      case 'open':
        return this.#parenthesis(token)
      case 'field':
        return { kind: 'field', at, path: text === '.' ? [] : text.slice(1).split('.') }
      case 'number':
        return { kind: 'literal', at, value: numberLiteral(text) }
      case 'text':
        return { kind: 'literal', at, value: textValue(unquote(this.#text, token)) }
      case 'rawText':
        return { kind: 'literal', at, value: textValue(text.slice(1, -1)) }
      case 'word':
        return { kind: 'literal', at, value: this.#constant(token) }
      default:
        throw this.#error(token, token.kind === 'end' ? 'a value is missing here' : 'a value is missing before this')
    }
  }

  #parenthesis(open: Token): Expression {
    // Bounded, because both this and the evaluation go as deep as the expression does.
    this.#depth += 1
    if (this.#depth > DEEPEST) throw this.#error(open, `is nested deeper than ${DEEPEST} parentheses`)
    const inner = this.#expression()
    const close = this.#take()
    if (close.kind === 'end') throw this.#error(open, 'is never closed')
    if (close.kind !== 'close') throw this.#error(close, 'is left over: a call begins with its function')
    this.#depth -= 1
    return inner
  }

  #constant(token: Token): Value {
    const value = constants[token.text]
    if (value !== undefined) return value
    throw this.#error(
      token,
      isFunction(token.text)
        ? `a call inside a call stands in parentheses: (${token.text} …)`
        : unknownFunction(token.text),
    )
  }

  #peek(): Token {
    return this.#tokens[this.#next] ?? { kind: 'end', at: this.#text.length, text: '' }
  }

  #take(): Token {
    const token = this.#peek()
    this.#next += 1
    return token
  }

  #error(token: Token, problem: string) {
    return malformed(this.#text, token.at, problem)
  }
}

const constants: Readonly<Record<string, Value | undefined>> = Object.assign(Object.create(null), {
  true: booleanValue(true),
  false: booleanValue(false),
  nil: missing,
})

function numberLiteral(text: string): Value {
  const value = parseDecimal(text)
  return value === undefined ? missing : { is: 'number', value }
}

function unknownFunction(name: string): string {
  const nearest = nearestName(name, functionNames)
  const meant = nearest === undefined ? `there are ${functionNames.join(', ')}` : `did you mean \`${nearest}\`?`
  return `unknown function \`${name}\`; ${meant} (a field begins with a point, a text stands between double quotes)`
}

function howMany(least: number, most: number): string {
  if (least !== most) return `${least} values or more`
  return least === 1 ? '1 value' : `${least} values`
}
