import { describe, expect, it } from 'vitest'
import { parseCondition } from './condition.js'

const subject = { instanceId: '0190163d-8694-739b-aea5-966c26f8ad91', stepName: 'check' }
const test = (expression: string, input: string) => parseCondition(expression).test({ ...subject, input })

const order = `{
  "count": 5, "amount": 100.50, "big": 9007199254740993, "text": "42", "yes": true, "no": false, "nothing": null, "zero": 0,
  "name": "Smith", "empty": "", "user": { "age": 18, "address": { "city": "Graz" } }, "tags": ["vip", 7, true], "none": [], "object": {}
}`

describe('W-06 conditions', () => {
  it.each<[string, boolean]>([
    ['{{ eq .count 5 }}', true],
    ['{{ eq .count 5.0 }}', true],
    ['{{ eq .count 50e-1 }}', true],
    ['{{ eq .count 5.00000000000000000001 }}', false],
    ['{{ eq .count +5 }}', true],
    ['{{ eq .count -5 }}', false],
    ['{{ eq .name "Smith" }}', true],
    ['{{ eq .name "smith" }}', false],
    ['{{ eq .name `Smith` }}', true],
    ['{{ eq .name "Jones" "Smith" }}', true],
    ['{{ eq .name "Jones" "Brown" }}', false],
    ['{{ ne .name "Smith" }}', false],
    ['{{ ne .count 4 }}', true],
    ['{{ gt .count 4 }}', true],
    ['{{ gt .count 5 }}', false],
    ['{{ lt .count 5.1 }}', true],
    ['{{ ge .count 5 }}', true],
    ['{{ ge .user.age 18 }}', true],
    ['{{ le .count 4 }}', false],
    ['{{ le -1 -0.5 }}', true],
    ['{{ lt -2 -1 }}', true],
    ['{{ lt -1 1 }}', true],
    ['{{ lt 0.09 0.1 }}', true],
    ['{{ lt 99 100 }}', true],
    ['{{ gt 123 12.9 }}', true],
    ['{{ gt 1e999999999999 1e999999999998 }}', true],
    ['{{ lt 1e-999999999999 1e-999999999998 }}', true],
    ['{{ eq 0 0e5 }}', true],
    ['{{ eq 0 -0.00 }}', true],
    ['{{ eq 1000 1e3 }}', true],
    ['{{ eq 0012 12 }}', true],
    ['{{ eq .user.address.city "Graz" }}', true],
    ['{{ and (gt .count 1) (eq .name "Smith") }}', true],
    ['{{ and (gt .count 1) (eq .name "Jones") }}', false],
    ['{{ or (gt .count 9) (eq .name "Smith") }}', true],
    ['{{ or (gt .count 9) (eq .name "Jones") }}', false],
    ['{{ and .yes }}', true],
    ['{{ or .no .nothing }}', false],
    ['{{ not .yes }}', false],
    ['{{ not (lt .count 5) }}', true],
    ['{{ eq (or .missing .count) 5 }}', true],
    ['{{ eq (and .count .name) "Smith" }}', true],
    ['{{ contains .name "mit" }}', true],
    ['{{ contains .name "x" }}', false],
    ['{{ contains .tags "vip" }}', true],
    ['{{ contains .tags 7.0 }}', true],
    ['{{ contains .tags "7" }}', true],
    ['{{ contains .tags "gold" }}', false],
    ['{{ contains .missing "x" }}', false],
    ['{{ hasPrefix .name "Sm" }}', true],
    ['{{ hasPrefix .name "th" }}', false],
    ['{{ hasSuffix .name "th" }}', true],
    ['{{ hasSuffix .name "Sm" }}', false],
    ['{{ eq .instance_id "0190163d-8694-739b-aea5-966c26f8ad91" }}', true],
    ['{{ eq .step_name "check" }}', true],
    ['{{.yes}}', true],
    ['{{ .no }}', false],
    ['{{ .count }}', true],
    ['{{ .zero }}', false],
    ['{{ .empty }}', false],
    ['{{ .name }}', true],
    ['{{ .none }}', false],
    ['{{ .tags }}', true],
    ['{{ .object }}', false],
    ['{{ .user }}', true],
    ['{{ . }}', true],
    ['{{ true }}', true],
    ['{{ false }}', false],
    ['{{ nil }}', false],
    ['{{ (((.yes))) }}', true],
    ['{{- .yes -}}', true],
    ['{{-5}}', true],
    ['  {{ .yes }}\n', true],
    ['{{\n\tand\n\t\t(gt .count 1)\n\t\t.yes\n}}', true],
    ['{{ eq "a\\tb\\u0041\\x42\\"\\\\\\/\\n\\r" "a\tbAB\\"\\\\/\\n\\r" }}', true],
    ['{{ eq "}}" `}}` }}', true],
  ])('%s is %s', (expression, expected) => {
    expect(test(expression, order)).toBe(expected)
  })

  it.each<[string, boolean]>([
    ['{{ eq .text 42 }}', true],
    ['{{ eq 42 .text }}', true],
    ['{{ eq .text 42.0 }}', true],
    ['{{ gt .text 41.9 }}', true],
    ['{{ eq .text "42.0" }}', false],
    ['{{ eq .name 0 }}', false],
    ['{{ eq .yes 1 }}', true],
    ['{{ eq .no 0 }}', true],
    ['{{ eq .yes true }}', true],
    ['{{ eq .yes "true" }}', true],
    ['{{ eq .yes "1" }}', true],
    ['{{ eq .yes "false" }}', false],
    ['{{ gt .yes 0 }}', true],
  ])('a text, a number and a boolean compare as numbers: %s is %s', (expression, expected) => {
    expect(test(expression, order)).toBe(expected)
  })

  it.each<[unknown, boolean]>([
    ['false', false],
    ['true', true],
    ['0', false],
    ['-0.00', false],
    ['1', true],
    ['', false],
    ['no', true],
    ['FALSE', true],
    [false, false],
  ])('W-06 the text %j by itself is as true as what it spells: %s', (flag, expected) => {
    expect(test('{{ .flag }}', JSON.stringify({ flag }))).toBe(expected)
    expect(test('{{ not .flag }}', JSON.stringify({ flag }))).toBe(!expected)
    expect(test('{{ and .flag true }}', JSON.stringify({ flag }))).toBe(expected)
  })

  it('K-27 contains takes time in proportion to the input, whatever the input is', () => {
    const digits = '1'.repeat(300_000)
    const within = (expression: string, input: object, expected: boolean) => {
      const began = performance.now()
      expect(test(expression, JSON.stringify(input))).toBe(expected)
      expect(performance.now() - began).toBeLessThan(2_000)
    }
    within('{{ contains .list .part }}', { list: Array.from({ length: 100_000 }, (_, at) => at), part: digits }, false)
    within(
      '{{ contains .list .part }}',
      { list: Array.from({ length: 100_000 }, (_, at) => `${at}`), part: 99_999 },
      true,
    )
    within('{{ contains .text .part }}', { text: 'a'.repeat(600_000), part: `b${'a'.repeat(300_000)}` }, false)
    within('{{ contains .text .part }}', { text: `${'a'.repeat(600_000)}b`, part: `${'a'.repeat(300_000)}b` }, true)
    within('{{ eq .text 1 }}', { text: `1e${digits}` }, false)
    within('{{ eq .text 1000 }}', { text: '1e0000000000000000000003' }, true)
  })

  it.each<[string, boolean]>([
    ['{{ eq .missing 0 }}', true],
    ['{{ lt .missing 1 }}', true],
    ['{{ gt .missing -1 }}', true],
    ['{{ eq .nothing 0 }}', true],
    ['{{ eq .missing "" }}', true],
    ['{{ eq .missing "0" }}', false],
    ['{{ eq .missing false }}', true],
    ['{{ eq .missing nil }}', true],
    ['{{ eq .missing .tags }}', false],
    ['{{ ne .object nil }}', true],
    ['{{ eq .missing.deeper.still 0 }}', true],
    ['{{ eq .nothing.deeper 0 }}', true],
    ['{{ .__proto__ }}', false],
    ['{{ .constructor }}', false],
    ['{{ .constructor.constructor }}', false],
    ['{{ .toString }}', false],
    ['{{ .user.__proto__ }}', false],
  ])('what is missing is nothing, 0 for numbers: %s is %s', (expression, expected) => {
    expect(test(expression, order)).toBe(expected)
  })

  it('finds a field of any name that the input really has', () => {
    const input = '{"__proto__": {"constructor": 3}, "größe": 5, "instance_id": 9, "step_name": {"x": 1}}'
    expect(test('{{ eq .__proto__.constructor 3 }}', input)).toBe(true)
    expect(test('{{ eq .größe 5 }}', input)).toBe(true)
    // The engine's own names win; what lies deeper is the input's.
    expect(test('{{ eq .instance_id 9 }}', input)).toBe(false)
    expect(test('{{ eq .step_name.x 1 }}', input)).toBe(true)
  })

  it.each<[string, string, boolean]>([
    ['{{ eq .n 9007199254740993 }}', '{"n": 9007199254740993}', true],
    ['{{ eq .n 9007199254740992 }}', '{"n": 9007199254740993}', false],
    ['{{ gt .n 0.3 }}', '{"n": 0.30000000000000000000000000001}', true],
    ['{{ eq .n 0.1 }}', '{"n": 0.1}', true],
    ['{{ gt .n 100 }}', '{"n": "100.000000000000000001"}', true],
    ['{{ lt .n 1e400 }}', '{"n": 1e399}', true],
    ['{{ eq .n "1 \\"x\\" 2" }}', '{"n": "1 \\"x\\" 2"}', true],
  ])('compares exactly: %s of %s is %s', (expression, input, expected) => {
    expect(test(expression, input)).toBe(expected)
  })

  it('evaluates no more than it needs', () => {
    expect(test('{{ or .yes (gt .name 1) }}', order)).toBe(true)
    expect(test('{{ and .no (gt .name 1) }}', order)).toBe(false)
  })
})

const malformed: [string, number, string][] = [
  ['', 1, 'must be one expression between {{ and }}'],
  ['gt .a 1', 1, 'must be one expression between {{ and }}, such as {{ gt .amount 100 }}'],
  ['yes: {{ .a }}', 1, 'between {{ and }}'],
  ['{{ }}', 4, 'is empty'],
  ['{{}}', 3, 'is empty'],
  ['{{ gt .a }}', 4, '`gt` takes 2 values, not 1'],
  ['{{ gt .a 1 2 }}', 4, '`gt` takes 2 values, not 3'],
  ['{{ not }}', 4, '`not` takes 1 value, not 0'],
  ['{{ eq .a }}', 4, '`eq` takes 2 values or more, not 1'],
  ['{{ grt .a 1 }}', 4, 'unknown function `grt`; did you mean `gt`?'],
  ['{{ len .a }}', 4, 'unknown function `len`; did you mean `le`?'],
  ['{{ banana .a }}', 4, 'there are eq, ne, gt, lt, ge, le, and, or, not, contains, hasPrefix, hasSuffix'],
  ['{{ constructor .a }}', 4, 'unknown function `constructor`'],
  ['{{ __proto__ }}', 4, 'unknown function `__proto__`'],
  ['{{ eq .a active }}', 10, 'unknown function `active`'],
  ['{{ and gt .a 1 }}', 8, 'a call inside a call stands in parentheses: (gt …)'],
  ['{{ .a 5 }}', 7, 'is left over: a call begins with its function'],
  ['{{ (.a 5) }}', 8, 'is left over: a call begins with its function'],
  ['{{ (gt .a 1 }}', 4, 'is never closed'],
  ['{{ gt .a 1) }}', 11, 'closes a parenthesis that was not opened'],
  ['{{ () }}', 5, 'a value is missing before this'],
  ['{{ eq ( }}', 9, 'a value is missing here'],
  ['{{ eq .a "x }}', 10, 'a text begins here and does not end'],
  ['{{ eq .a `x }}', 10, 'a text begins here and does not end'],
  ['{{ eq .a "\\q" }}', 11, '`\\q` is no escape'],
  ["{{ eq .a 'x' }}", 10, 'a text stands between double quotes'],
  ['{{ .a | not }}', 7, 'pipes are not supported'],
  ['{{ eq $.a 1 }}', 7, 'variables are not supported'],
  ['{{ eq .a 0x10 }}', 10, 'is no number'],
  ['{{ eq .a 1.2.3 }}', 10, 'is no number'],
  ['{{ eq .a..b 1 }}', 9, 'is no field'],
  ['{{ eq .5 1 }}', 7, 'is no field'],
  ['{{ eq .a == 1 }}', 10, '`=` means nothing here'],
  ['{{ .a }}{{ .b }}', 7, '`}` means nothing here'],
  ['{{ eq .a 😀 }}', 10, '`😀` means nothing here'],
  [`{{ ${'('.repeat(101)}.a${')'.repeat(101)} }}`, 104, 'is nested deeper than 100 parentheses'],
  [`{{ ${' '.repeat(10_000)}.a }}`, 1, 'is longer than 10000 characters'],
]

describe('W-06 malformed conditions', () => {
  it.each(malformed)('%s is refused at character %d: %s', (expression, position, problem) => {
    expect(() => parseCondition(expression)).toThrow(
      expect.objectContaining({
        code: 'HF_INVALID_CONDITION',
        details: expect.objectContaining({ position, problem: expect.stringContaining(problem) }),
      }),
    )
  })

  it('shows the place with a caret, in one line however it was written', () => {
    expect(() => parseCondition('{{ and\n  (gt .a)\n  .b }}')).toThrow(
      'malformed condition, at character 11: `gt` takes 2 values, not 1\n{{ and   (gt .a)   .b }}\n          ^',
    )
  })

  it('shows the surroundings only of a place in a long expression', () => {
    const long = `{{ and ${'.a '.repeat(90)}? ${'.b '.repeat(90)} }}`
    expect(() => parseCondition(long)).toThrow(/\n.{120}\n {60}\^$/)
  })
})

describe('W-06 conditions that cannot be evaluated with their input', () => {
  it.each([
    ['{{ .a }}', '5', 'the input is a number, which has no fields'],
    ['{{ .a }}', '"x"', 'the input is a text, which has no fields'],
    ['{{ .a }}', '[1]', 'the input is a list, which has no fields'],
    ['{{ .a }}', 'true', 'the input is a boolean, which has no fields'],
    ['{{ .a }}', 'null', 'the input is nothing, which has no fields'],
    ['{{ .name.first }}', order, '`.name` is a text, which has no fields'],
    ['{{ .user.age.years }}', order, '`.user.age` is a number, which has no fields'],
    ['{{ gt .name 1 }}', order, '`gt` compares numbers, and a text is none'],
    ['{{ lt 1 .tags }}', order, '`lt` compares numbers, and a list is none'],
    ['{{ eq .tags 1 }}', order, '`eq` cannot compare a list with a number'],
    ['{{ ne .user .object }}', order, '`ne` cannot compare an object with an object'],
    ['{{ hasPrefix .count "5" }}', order, '`hasPrefix` looks into texts, and a number is none'],
    ['{{ contains .name 5 }}', order, '`contains` looks into texts, and a number is none'],
    ['{{ .a }}', '{not json', 'the input is not JSON'],
  ])('%s of %s: %s', (expression, input, problem) => {
    expect(() => test(expression, input)).toThrow(
      expect.objectContaining({
        code: 'HF_CONDITION_UNEVALUABLE',
        details: expect.objectContaining({ step: 'check', problem }),
      }),
    )
  })

  it('tells the kind of a value, never the value', () => {
    expect(() => test('{{ gt .card 1 }}', '{"card": "4111 1111"}')).toThrow(/^((?!4111).)*$/s)
  })
})
