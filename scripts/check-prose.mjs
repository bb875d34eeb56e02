// Checks the English of comments, messages, docs, names and titles of tests: spelling, words that the glossary of
// CONTRIBUTING.md replaces, and rule ids where users read (JSDoc, guides). `npm run check` runs it; `npm run check:prose -- <path>…` checks these paths
// whether or not they are covered yet, which is how a folder is made ready for scripts/prose/covered.mjs.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { bannedWords } from './prose/banned.mjs'
import { covered } from './prose/covered.mjs'
import { exceptions } from './prose/exceptions.mjs'
import { namesOf, proseOf, titlesOf } from './prose/extract.mjs'
import { createSpelling } from './prose/spelling.mjs'

const TESTS = /\.test\.ts$/
const RULE_ID = /\b[A-Z]-\d{2}\b/
const GUIDES = /^(README\.md|docs\/guides\/)/

const banned = bannedWords(readFileSync('CONTRIBUTING.md', 'utf8'))
const spelling = createSpelling(readFileSync('scripts/prose/words.txt', 'utf8'))
const used = new Set()

function problemsOf(file) {
  const source = readFileSync(file, 'utf8')
  const found = []
  const report = (line, word, text) => {
    const exception = exceptions.find((one) => file.startsWith(one.path) && one.word === word)
    if (exception) used.add(exception)
    else found.push(`${file}:${line}: ${text}`)
  }
  const checkWords = (line, text) => {
    for (const { pattern, term } of banned) {
      for (const [word] of text.matchAll(pattern)) {
        report(line, word.toLowerCase(), `"${word}" is not in our vocabulary (see "${term}" in CONTRIBUTING.md)`)
      }
    }
  }
  if (TESTS.test(file)) {
    for (const { line, text } of titlesOf(file, source)) checkWords(line, text)
    return found
  }
  for (const { line, text, isJsDoc } of proseOf(file, source)) {
    checkWords(line, text)
    for (const word of spelling.misspelled(text)) report(line, word, `"${word}" is not in the dictionary`)
    const rule = isJsDoc || GUIDES.test(file) ? RULE_ID.exec(text)?.[0] : undefined
    if (rule)
      report(line, rule, `the rule id ${rule} means nothing to a user; a // comment or a test title may carry it`)
  }
  for (const { line, name, text } of namesOf(file, source)) {
    for (const { pattern, term } of banned) {
      const [word] = text.match(pattern) ?? []
      if (word) report(line, word.toLowerCase(), `the name ${name} has "${word}" (see "${term}" in CONTRIBUTING.md)`)
    }
  }
  return found
}

const asked = process.argv.slice(2)
const paths = asked.length > 0 ? asked : covered
const files = execFileSync('git', ['ls-files', '--', ...paths], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => /\.(ts|mjs|md|sql)$/.test(file))
const problems = files.flatMap(problemsOf)
if (asked.length === 0) {
  for (const one of exceptions) {
    if (!used.has(one))
      problems.push(`scripts/prose/exceptions.mjs: nothing needs the exception of "${one.word}" in ${one.path}`)
  }
}
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1
else console.log(`prose: ${files.length} files are in plain English`)
