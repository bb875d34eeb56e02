// Packs every published package as npm would and has publint and attw look at the result.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const run = (command, args, cwd) => execFileSync(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] })

for (const folder of readdirSync('packages')) {
  const cwd = join('packages', folder)
  const { name, private: unpublished } = JSON.parse(readFileSync(join(cwd, 'package.json'), 'utf8'))
  if (unpublished) continue
  console.log(`\n${name}`)
  const packed = mkdtempSync(join(tmpdir(), 'holdfast-pack-'))
  try {
    run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', packed], cwd)
    const tarball = join(packed, readdirSync(packed)[0])
    run('npx', ['publint', '--strict', cwd])
    // ESM only, by choice: CommonJS users import it dynamically, or by require on Node 22.
    run('npx', ['attw', '--profile', 'esm-only', tarball])
  } finally {
    rmSync(packed, { recursive: true, force: true })
  }
}
