// Takes PGMQ's own SQL out of the npm package that carries it and puts it into the engine's build, from where it is
// installed as plain SQL on servers that do not have the extension. Part of every build; quick when it is there.
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'

const VERSION = '1.11.1'
const CARRIER = '@electric-sql/pglite-pgmq'
const BLOCK = 512

const require = createRequire(import.meta.url)
const archive = join(dirname(require.resolve('@electric-sql/pglite-pgmq')), 'pgmq.tar.gz')
const folder = fileURLToPath(new URL('../packages/engine/dist/pgmq/', import.meta.url))
const sources = [archive, fileURLToPath(import.meta.url)]
const targets = [join(folder, 'NOTICE'), join(folder, 'pgmq.sql')]

const notice = `PGMQ ${VERSION}, a lightweight message queue on PostgreSQL, by the PGMQ project.

The file pgmq.sql beside this notice is PGMQ's own SQL, version ${VERSION}, unchanged but for one comment on top. It is not
a part of Holdfast: its authors license it under the PostgreSQL License (SPDX: PostgreSQL). It was taken from the npm
package ${CARRIER}, which carries it.
`

/** A tar archive is a header of one block per file, followed by the file in whole blocks. */
function readFromTar(tar, suffix) {
  const text = (from, length) => tar.toString('latin1', from, from + length).replace(/\0[\s\S]*$/, '')
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0; ) {
    const size = Number.parseInt(text(at + 124, 12), 8)
    const name = text(at + 345, 155) ? `${text(at + 345, 155)}/${text(at, 100)}` : text(at, 100)
    const start = at + BLOCK
    if (name.endsWith(suffix)) return tar.toString('utf8', start, start + size)
    at = start + Math.ceil(size / BLOCK) * BLOCK
  }
  throw new Error(`${archive} holds no ${suffix}: has the version of ${CARRIER} changed?`)
}

const changedAt = (path) => statSync(path).mtimeMs
const upToDate = targets.every(existsSync) && Math.min(...targets.map(changedAt)) >= Math.max(...sources.map(changedAt))

if (!upToDate) {
  const sql = readFromTar(gunzipSync(readFileSync(archive)), `/extension/pgmq--${VERSION}.sql`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'NOTICE'), notice)
  // The file itself has the version, so that the code that installs it need not know it.
  writeFileSync(join(folder, 'pgmq.sql'), `-- PGMQ ${VERSION}, under the PostgreSQL License; see NOTICE.\n${sql}`)
}
