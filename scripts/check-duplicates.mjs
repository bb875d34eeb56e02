// Fails where six or more equal lines stand in two SQL function files, or in two model folders of the engine. Lines that stand
// everywhere (braces, imports, the frame of a function) do not count.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const SIX = 6
const packages = fileURLToPath(new URL('../packages/engine/', import.meta.url))
const MODELS = ['queue', 'limiter', 'commands', 'processes', 'workflows', 'dispatch', 'trouble']

const functions = readdirSync(`${packages}sql/functions`).map((file) => ({
  path: `sql/functions/${file}`,
  owner: file,
  everywhere:
    /^(--.*|[()]|\)?,|\$\$;?|as \$\$|as \$body\$|declare|begin|end|end;|else|loop|end loop;|end if;|select|set|language \w+|returns .*|stable|immutable|parallel safe|v_now timestamptz := holdfast\.now\(\);)$/,
}))
const sources = MODELS.flatMap((owner) =>
  readdirSync(`${packages}src/${owner}`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/\.(test|fixture)\.ts$|simulation/.test(file))
    .map((file) => ({ path: `src/${owner}/${file}`, owner, everywhere: /^(import .*|\} from '.*|[)}\]]+,?)$/ })),
)

const found = [...repeated(functions), ...repeated(sources)]
for (const { text, places } of found) {
  const where = places.map(({ path, line }) => `${path}:${line}`).join(' and ')
  console.error(`${where} begin with the same six lines:\n${text}\n`)
}
if (found.length > 0) {
  console.error(`${found.length} blocks stand twice: make them one.`)
  process.exitCode = 1
}

/** The blocks of six lines that stand in files of two owners. */
function repeated(files) {
  const placesOf = new Map()
  for (const { path, owner, everywhere } of files) {
    const lines = readFileSync(`${packages}${path}`, 'utf8')
      // Imports of many lines leave empty ones, so that the numbers stay.
      .replace(/^import (?:type )?\{[^}]*\}/gm, (names) => names.replace(/[^\n]/g, ''))
      .split('\n')
      .map((text, index) => ({ text: text.trim(), number: index + 1 }))
      .filter(({ text }) => text !== '' && !everywhere.test(text))
    for (let first = 0; first + SIX <= lines.length; first += 1) {
      const block = lines.slice(first, first + SIX)
      const text = block.map((line) => line.text).join('\n')
      placesOf.set(text, [...(placesOf.get(text) ?? []), { path, owner, line: block[0].number }])
    }
  }
  return [...placesOf]
    .map(([text, places]) => ({ text, places }))
    .filter(({ places }) => new Set(places.map(({ owner }) => owner)).size > 1)
}
