import { expect, test } from 'vitest'
import { splitStatements } from './statements.js'

test.each<[string, string, [string, number][]]>([
  ['nothing', '-- only a comment\n\n', []],
  [
    'lines are counted',
    '-- head\n\na;\n  b\n;c',
    [
      ['a', 3],
      ['b', 4],
      ['c', 5],
    ],
  ],
  [
    'a text hides',
    "select 'a;''b';select 2",
    [
      ["select 'a;''b'", 1],
      ['select 2', 1],
    ],
  ],
  [
    'a quoted name hides',
    'select "a;""b"; c',
    [
      ['select "a;""b"', 1],
      ['c', 1],
    ],
  ],
  [
    'a comment hides',
    'a -- x; y\n; /* b; */ c',
    [
      ['a', 1],
      ['c', 2],
    ],
  ],
  [
    'a body hides',
    'do $$ a; b $$; do $x$ $$; $x$',
    [
      ['do $$ a; b $$', 1],
      ['do $x$ $$; $x$', 1],
    ],
  ],
])('%s', (_, sql, expected) => {
  expect(splitStatements(sql)).toEqual(expected.map(([text, line]) => ({ text, line })))
})
