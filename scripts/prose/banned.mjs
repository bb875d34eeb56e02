/**
 * The words that the glossary replaces: the last column of its table. A `*` stands for any ending.
 *
 * @param {string} contributing the text of CONTRIBUTING.md
 */
export function bannedWords(contributing) {
  const [, glossary = ''] = contributing.split('### Glossary')
  const rows = glossary.split('\n## ')[0].matchAll(/^\| (?<term>[^|]+) \|[^|]*\|(?<words>[^|]*)\|$/gm)
  return [...rows].flatMap(({ groups: { term, words } }) =>
    [...words.matchAll(/`([^`]+)`/g)].map(([, word]) => ({
      term,
      pattern: new RegExp(`\\b${word.replace('*', '\\w*').replace(/ /g, '\\s+')}\\b`, 'gi'),
    })),
  )
}
