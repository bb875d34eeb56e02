// Completes package-lock.json after `npm install` from a mirror that lacks some platforms' optional packages: npm leaves
// them out of the lock, and `npm ci` then refuses it everywhere. Their versions are pinned by the packages that want them.
import { readFileSync, writeFileSync } from 'node:fs'

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'))
const OS = [
  'android',
  'darwin',
  'freebsd',
  'linux',
  'netbsd',
  'openbsd',
  'openharmony',
  'sunos',
  'aix',
  'win32',
  'windows',
]
const CPU = ['arm64', 'arm', 'x64', 'ia32', 'ppc64', 'riscv64', 's390x', 'loong64', 'mips64el', 'wasm32']

/** Where npm would install it is told by its name: `@scope/tool-linux-arm64-musl`. */
function platformOf(name) {
  const words = name.split(/[-/]/)
  const os = OS.find((word) => words.includes(word))
  const cpu = CPU.find((word) => words.includes(word))
  const libc = words.includes('musl') ? 'musl' : words.includes('gnu') ? 'glibc' : undefined
  return {
    ...(cpu ? { cpu: [cpu] } : {}),
    ...(libc ? { libc: [libc] } : {}),
    ...(os ? { os: [os === 'windows' ? 'win32' : os] } : {}),
  }
}

const added = []
for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const place = `node_modules/${name}`
    if (Object.keys(lock.packages).some((path) => path.endsWith(place))) continue
    lock.packages[place] = { version, ...platformOf(name), ...(parent.dev ? { dev: true } : {}), optional: true }
    added.push(`${name}@${version}`)
  }
}
const [root, ...rest] = Object.entries(lock.packages)
rest.sort(([a], [b]) => a.localeCompare(b, 'en'))
lock.packages = Object.fromEntries([root, ...rest])
writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`)
console.log(added.length === 0 ? 'the lock is complete' : `added ${added.join(', ')}`)
