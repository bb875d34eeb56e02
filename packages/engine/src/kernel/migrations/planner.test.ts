import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pinPlanner } from './planner.js'
import { sqlDirectory } from './sql-directory.js'

const functionWith = (planner: string, rest = 'as $$ select 1 $$;') =>
  `-- why\n-- planner: ${planner}\ncreate or replace function holdfast.f()\nlanguage sql\n${rest}`

const ALL =
  'set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_bitmapscan = off ' +
  'set enable_hashjoin = off set enable_mergejoin = off set enable_material = off'

test.each([
  ['no jit', 'set jit = off'],
  ['no seqscan, no jit', 'set jit = off set enable_seqscan = off'],
  ['generic', 'set plan_cache_mode = force_generic_plan set jit = off'],
  ['custom, no hashjoin', 'set plan_cache_mode = force_custom_plan set jit = off set enable_hashjoin = off'],
  ['indexed', ALL],
  ['looped, no material, no bitmapscan', ALL],
  ['indexed, no sort', `${ALL} set enable_sort = off`],
])('K-17 the planner line `%s` becomes settings of the function', (planner, settings) => {
  expect(pinPlanner('f', functionWith(planner))).toBe(functionWith(planner, `${settings} as $$ select 1 $$;`))
})

test('K-17 a function without a planner line is left as it is', () => {
  const text = 'create or replace function holdfast.f()\nlanguage sql\nas $$ select 1 $$;'
  expect(pinPlanner('f', text)).toBe(text)
  expect(pinPlanner('f', `${functionWith('no jit')}\n${text}`).endsWith(`\n${text}`)).toBe(true)
})

test.each([
  ['an unknown word', functionWith('no seqscans'), /line 2: `no seqscans` is not a planner setting; known are generic/],
  [
    'a line apart from its function',
    '-- planner: indexed\n\ncreate or replace function holdfast.f()',
    /line 1: .*right above/,
  ],
  [
    'a function without a body of text',
    functionWith('no jit', 'begin atomic select 1; end;'),
    /no function with a line/,
  ],
  [
    'a body that is the next function’s',
    functionWith('no jit', `begin atomic select 1; end;\n${functionWith('no jit').split('\n').slice(2).join('\n')}`),
    /line 6: the function above it/,
  ],
])('K-17 %s is refused', (_, text, problem) => {
  expect(() => pinPlanner('f', text)).toThrow(problem)
})

test('K-17 our function files name their planner settings, and write none by hand', async () => {
  const folder = join(sqlDirectory(), 'functions')
  const byHand: string[] = []
  for (const file of await readdir(folder)) {
    const lines = (await readFile(join(folder, file), 'utf8')).split('\n')
    lines.forEach((line, index) => {
      if (/^set (?:jit|enable_|plan_cache_mode)/.test(line)) byHand.push(`${file}:${index + 1} ${line}`)
    })
  }
  expect(byHand).toEqual([])
})
