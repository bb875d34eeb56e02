import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

/** The rules of the specification that tests prove: letter by letter, the numbers. */
const RULES: Readonly<Record<string, readonly (number | readonly [from: number, to: number])[]>> = {
  A: [[1, 7]],
  C: [[1, 17]],
  D: [
    [1, 9],
    [11, 16],
  ],
  K: [[1, 27]],
  M: [[1, 5]],
  P: [[1, 24]],
  Q: [[1, 3]],
  R: [[1, 4]],
  W: [[1, 17]],
  X: [[1, 3]],
}

test('X-03 every rule is named in the title of a test that `npm test` runs', async () => {
  const root = new URL('../../../', import.meta.url)
  const files = execFileSync('git', ['ls-files', '*.test.ts'], { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter((file) => file !== '' && !file.endsWith('.long.test.ts') && !file.endsWith('rules.test.ts'))
  const texts = await Promise.all(files.map((file) => readFile(new URL(file, root), 'utf8')))
  const titles = texts.flatMap((text) => text.match(/\b(?:test|it|describe)\b[^\n]*\n?[^\n]*[A-Z]-\d\d[^\n]*/g) ?? [])
  const named = new Set(titles.flatMap((title) => title.match(/\b[A-Z]-\d\d\b/g) ?? []))
  expect(rules().filter((rule) => !named.has(rule))).toEqual([])
})

function rules(): string[] {
  return Object.entries(RULES).flatMap(([letter, spans]) =>
    spans.flatMap((span) => {
      const [from, to] = typeof span === 'number' ? [span, span] : span
      return Array.from({ length: to - from + 1 }, (_, n) => `${letter}-${String(from + n).padStart(2, '0')}`)
    }),
  )
}
