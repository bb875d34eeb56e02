// Packs every published package as npm would and has publint and attw look at the result. Its type declarations may import only
// packages that it depends on and that bring their own types: a user who checks libraries too has nothing else.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const run = (command, args, cwd) => execFileSync(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] })

for (const folder of readdirSync('packages')) {
  const cwd = join('packages', folder)
  const { name, private: unpublished, dependencies = {} } = JSON.parse(readFileSync(join(cwd, 'package.json'), 'utf8'))
  if (unpublished) continue
  console.log(`\n${name}`)
  checkDeclarations(cwd, Object.keys(dependencies))
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

function checkDeclarations(cwd, dependencies) {
  for (const file of readdirSync(join(cwd, 'dist'), { recursive: true }).filter((path) => path.endsWith('.d.ts'))) {
    const text = readFileSync(join(cwd, 'dist', file), 'utf8')
    for (const [, imported] of text.matchAll(
      /(?:^(?:import|export|\}).* from |import\()'((?:@[^/']+\/)?[^./'][^/']*)[^']*'/gm,
    )) {
      if (imported.startsWith('node:') || (dependencies.includes(imported) && bringsTypes(imported))) continue
      throw new Error(`${join(cwd, 'dist', file)} imports ${imported}, whose types a user need not have`)
    }
  }
}

function bringsTypes(name) {
  const { types, exports } = JSON.parse(readFileSync(join('node_modules', name, 'package.json'), 'utf8'))
  return types !== undefined || JSON.stringify(exports ?? {}).includes('types')
}
