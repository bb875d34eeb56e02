import { malformed } from './malformed.js'

/**
 * The planner settings that functions are pinned to, as named sets. A function asks for them in the line above it:
 *
 *     -- planner: indexed, no sort
 *     create or replace function holdfast.claim_processes(…)
 *
 * Why pin at all: a plan that was cached while a table was empty scans for ever, and statistics that are missing or stale
 * make the planner read a whole table for one row.
 */
const SETS: Readonly<Record<string, readonly string[]>> = {
  /** One plan for all arguments. JIT is off because a switched-off plan node counts as so expensive that JIT would compile it. */
  generic: ['plan_cache_mode = force_generic_plan', 'no jit'],
  /** A plan for the arguments of each call: for filters that may be absent. */
  custom: ['plan_cache_mode = force_custom_plan', 'no jit'],
  /** Nested loops over indexes, for statements that join a list of arguments with a table. */
  looped: ['generic', 'no seqscan', 'no hashjoin', 'no mergejoin'],
  /** The same, and rows come in the order of the index: for claims and batched writes. */
  indexed: ['looped', 'no bitmapscan', 'no material'],
}

/** Single settings. They are written into the function in this order, whichever way they were named. */
const SINGLES: Readonly<Record<string, string>> = {
  'no jit': 'jit = off',
  'no seqscan': 'enable_seqscan = off',
  'no bitmapscan': 'enable_bitmapscan = off',
  'no hashjoin': 'enable_hashjoin = off',
  'no mergejoin': 'enable_mergejoin = off',
  'no material': 'enable_material = off',
  'no sort': 'enable_sort = off',
}

const PLANNER_LINE = /^-- planner:(.*)$/
const FUNCTION_LINE = /^create or replace (?:function|procedure) /
const BODY_LINE = /^as \$/

/**
 * Writes the settings that `-- planner:` lines name into their functions. They are SET clauses of the function, on the line
 * on which its body begins: errors keep the line numbers of the file, and no function is ever seen without its settings.
 */
export function pinPlanner(file: string, text: string): string {
  const lines = text.split('\n')
  let settings: readonly string[] | undefined
  lines.forEach((line, index) => {
    const words = PLANNER_LINE.exec(line)?.[1]
    if (words !== undefined) {
      if (!FUNCTION_LINE.test(lines[index + 1] ?? '')) throw misplaced(file, index)
      settings = settingsOf(file, index, words)
    } else if (settings && BODY_LINE.test(line)) {
      lines[index] = `${settings.map((setting) => `set ${setting}`).join(' ')} ${line}`
      settings = undefined
    } else if (settings && FUNCTION_LINE.test(line) && !PLANNER_LINE.test(lines[index - 1] ?? '')) {
      throw malformed(file, `line ${index + 1}: the function above it has a \`-- planner:\` line and no line \`as $$\``)
    }
  })
  if (settings) throw malformed(file, 'its last `-- planner:` line has no function with a line `as $$`')
  return lines.join('\n')
}

function settingsOf(file: string, index: number, words: string): string[] {
  const named = new Set(words.split(',').flatMap((word) => expand(file, index, word.trim())))
  const order = Object.values(SINGLES)
  return [...named].sort((one, other) => order.indexOf(one) - order.indexOf(other))
}

function expand(file: string, index: number, word: string): readonly string[] {
  const single = SINGLES[word]
  if (single !== undefined) return [single]
  const set = SETS[word]
  if (set) return set.flatMap((part) => (part.includes('=') ? [part] : expand(file, index, part)))
  const known = [...Object.keys(SETS), ...Object.keys(SINGLES)].join(', ')
  throw malformed(file, `line ${index + 1}: \`${word}\` is not a planner setting; known are ${known}`)
}

function misplaced(file: string, index: number): Error {
  return malformed(
    file,
    `line ${index + 1}: a \`-- planner:\` line stands right above its \`create or replace function\``,
  )
}
