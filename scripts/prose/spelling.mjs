import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import nspell from 'nspell'

const WORD = /[A-Za-z][a-z]+(?:['’][a-z]+)?/g

/** Words of prose that a British dictionary and our own list do not have. */
export function createSpelling(ownWords) {
  const folder = createRequire(import.meta.url)
    .resolve('dictionary-en-gb')
    .replace(/index\.js$/, '')
  const speller = nspell({ aff: readFileSync(`${folder}index.aff`), dic: readFileSync(`${folder}index.dic`) })
  for (const word of ownWords.split('\n')) if (word !== '' && !word.startsWith('#')) speller.add(word)
  const known = new Map()
  const isKnown = (word) => {
    if (!known.has(word)) known.set(word, speller.correct(word) || speller.correct(word.toLowerCase()))
    return known.get(word)
  }
  return {
    misspelled: (text) =>
      [...new Set(wordsOf(text))].filter((word) => !isKnown(word.replace('’', "'").replace(/'s$/, ''))),
  }
}

/** Not names: what has a capital inside, a digit, an underscore, a dot or a slash is code. */
function wordsOf(text) {
  return text
    .split(/[\s"“”()[\]{},;:!?…–—=+*|<>&]+/)
    .map((token) => token.replace(/^['‘.]+|['’.]+$/g, ''))
    .filter((token) => !/[\d_./@#$%\\^~]/.test(token) && !/[a-z][A-Z]/.test(token) && !/[A-Z]{2}/.test(token))
    .flatMap((token) => token.match(WORD) ?? [])
}
