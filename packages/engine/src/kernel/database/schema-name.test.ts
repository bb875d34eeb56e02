import { expect, test } from 'vitest'
import { checkSchemaName, quoteIdentifier, schemaNaming } from './schema-name.js'

test.each([
  ['holdfast', 'select * from "holdfast".clock'],
  ['Pay"ments – ünï 1', 'select * from "Pay""ments – ünï 1".clock'],
  ['$& $1', 'select * from "$& $1".clock'],
])('K-09 the schema %s is put in, quoted', (schema, text) => {
  expect(schemaNaming(schema)('select * from holdfast.clock')).toBe(text)
})

test.each([
  ['a longer word is left alone', 'my_holdfast.x', 'my_holdfast.x'],
  ['a word alone is left alone', "'holdfast audit'", "'holdfast audit'"],
  ['every place is replaced, in bodies too', 'holdfast.a $$ holdfast.b $$', `"it's".a $$ "it's".b $$`],
  ['inside a literal, quotes are doubled', "'holdfast.a'::regclass", `'"it''s".a'::regclass`],
])('%s', (_, text, expected) => {
  expect(schemaNaming("it's")(text)).toBe(expected)
})

test.each([
  ['', 'not empty'],
  ['a\u0000b', 'control character'],
  ['a\nb', 'control character'],
  ['a$$b', '$$'],
  ['pg_mine', 'pg_'],
  ['ü'.repeat(32), 'longer than 63 bytes'],
])('the schema name %j is refused', (schema, problem) => {
  expect(() => checkSchemaName(schema)).toThrow(
    expect.objectContaining({ code: 'HF_INVALID_OPTION', message: expect.stringContaining(problem) }),
  )
})

test('a name of exactly 63 bytes is accepted', () => {
  expect(checkSchemaName('x'.repeat(63))).toHaveLength(63)
  expect(quoteIdentifier('a"b')).toBe('"a""b"')
})
