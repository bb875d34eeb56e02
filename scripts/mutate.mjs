// Mutation testing: changes the code on purpose and looks whether a test notices. On demand, because it takes a while.
//
//   npm run mutate                       hand-written mutations of SQL and TypeScript, and 150 by rule over the pure parts
//   npm run mutate -- --by-hand          only the first; --by-rule only the second, with --sample 0 for all of them
//   npm run mutate -- --only batch       those whose name or file contains the text
//   npm run mutate -- --check            only checks that every hand-written one still fits the code (npm run check)
//
// docs/decisions/mutation-testing.md has the result of the last whole run.
import { existsSync, lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { handWritten } from './mutation/hand-written.mjs'
import { mutationsOf } from './mutation/operators.mjs'
import { pureParts } from './mutation/pure-parts.mjs'
import { copyRepository, runTests } from './mutation/run.mjs'

const root = new URL('..', import.meta.url).pathname
const { values } = parseArgs({
  options: {
    'by-hand': { type: 'boolean', default: false },
    'by-rule': { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    sample: { type: 'string', default: '150' },
    lanes: { type: 'string', default: '2' },
    seed: { type: 'string', default: '1' },
  },
})

const byHand = handWritten.filter(({ name, file }) => `${name} ${file}`.includes(values.only)).map(applied)
const stale = byHand.filter(({ problem }) => problem)
for (const { name, file, problem } of stale) console.error(`${name}: ${file}: ${problem}`)
if (values.check || stale.length > 0) {
  if (stale.length === 0) console.log(`${byHand.length} hand-written mutations fit the code`)
  process.exit(stale.length > 0 ? 1 : 0)
}

const jobs = [
  ...(values['by-rule'] ? [] : byHand),
  ...(values['by-hand'] ? [] : sampled(byRule(), Number(values.sample))),
]
const results = await runAll(jobs, Number(values.lanes))
report(results)
process.exit(results.some(({ outcome }) => outcome === 'passed') ? 1 : 0)

/** A hand-written mutation as the whole text of its file; its search text must stand there exactly once. */
function applied({ name, file, find, replace, tests }) {
  const text = readFileSync(join(root, file), 'utf8')
  // However it is indented.
  const shape = new RegExp(
    find
      .trim()
      .replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`)
      .replaceAll(/\s+/g, String.raw`\s+`),
    'g',
  )
  const places = [...text.matchAll(shape)].length
  const mutated = text.replace(shape, () => replace.trim())
  const missing = tests.find((test) => !existsSync(join(root, test)))
  const problem =
    places !== 1
      ? `its search text stands there ${places} times, not once`
      : missing && `its test ${missing} is not there`
  return { name, file, mutated, tests, problem, config: 'vitest.config.ts', timeoutMs: 600_000 }
}

function byRule() {
  return pureParts.flatMap(({ files, tests }) =>
    sourcesIn(files)
      .filter((file) => file.includes(values.only))
      .flatMap((file) => {
        const text = readFileSync(join(root, file), 'utf8')
        return mutationsOf(file, text).map(({ start, end, instead, line, was }) => ({
          name: `${was.length > 50 ? `${was.slice(0, 50)}…` : was} → ${instead}`.replaceAll('\n', ' '),
          file: `${file}:${line}`,
          path: file,
          mutated: `${text.slice(0, start)}${instead}${text.slice(end)}`,
          tests,
          config: 'scripts/mutation/vitest.config.mjs',
          timeoutMs: 120_000,
        }))
      }),
  )
}

function sourcesIn(path) {
  if (lstatSync(join(root, path)).isFile()) return [path]
  return readdirSync(join(root, path))
    .filter((name) => name.endsWith('.ts') && !/\.(test|fixture)\.ts$/.test(name) && !name.includes('.properties.'))
    .map((name) => join(path, name))
}

/** So many of them, chosen by the seed; 0 is all. */
function sampled(all, count) {
  if (count === 0 || count >= all.length) return all
  let state = Number(values.seed)
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state
  }
  return all
    .map((job) => ({ job, at: next() }))
    .sort((a, b) => a.at - b.at)
    .slice(0, count)
    .map(({ job }) => job)
}

async function runAll(todo, lanes) {
  const queue = [...todo]
  const done = []
  await Promise.all(
    Array.from({ length: Math.min(lanes, queue.length) }, async () => {
      const folder = copyRepository(root)
      for (let job = queue.shift(); job; job = queue.shift()) {
        const target = join(folder, job.path ?? job.file)
        const original = readFileSync(target, 'utf8')
        writeFileSync(target, job.mutated)
        const { outcome } = await runTests(folder, job.tests, job)
        writeFileSync(target, original)
        done.push({ ...job, outcome })
        console.log(
          `${done.length}/${todo.length} ${outcome === 'passed' ? 'SURVIVED' : outcome}  ${job.file}  ${job.name}`,
        )
      }
    }),
  )
  return done
}

function report(all) {
  const count = (outcome) => all.filter((one) => one.outcome === outcome).length
  console.log(
    `\n${all.length} mutations: ${count('failed')} killed, ${count('timeout')} by the time limit, ${count('passed')} survived`,
  )
  for (const { outcome, file, name } of all) if (outcome === 'passed') console.log(`survived: ${file}  ${name}`)
}
