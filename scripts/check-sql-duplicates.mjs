// Fails where six or more equal lines stand in two of the SQL function files. Lines that every function has do not count.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const SIX = 6
const EVERYWHERE =
  /^(--.*|[()]|\)?,|\$\$;?|as \$\$|as \$body\$|declare|begin|end|end;|else|loop|end loop;|end if;|select|set|language \w+|returns .*|stable|immutable|parallel safe|v_now timestamptz := holdfast\.now\(\);)$/

const folder = fileURLToPath(new URL('../packages/engine/sql/functions/', import.meta.url))
const places = new Map()
for (const file of readdirSync(folder).sort()) {
  const lines = readFileSync(`${folder}${file}`, 'utf8')
    .split('\n')
    .map((text, index) => ({ text: text.trim(), number: index + 1 }))
    .filter(({ text }) => text !== '' && !EVERYWHERE.test(text))
  for (let first = 0; first + SIX <= lines.length; first += 1) {
    const block = lines.slice(first, first + SIX)
    const key = block.map(({ text }) => text).join('\n')
    const known = places.get(key) ?? []
    places.set(key, [...known, { file, line: block[0]?.number ?? 0 }])
  }
}

const found = [...places].filter(([, at]) => new Set(at.map(({ file }) => file)).size > 1)
for (const [text, at] of found) {
  console.error(
    `${at.map(({ file, line }) => `${file}:${line}`).join(' and ')} begin with the same six lines:\n${text}\n`,
  )
}
if (found.length > 0) {
  console.error('Write them once: a function that both call, or one that is made for both (leases.sql).')
  process.exitCode = 1
}
