// Checks package-lock.json: every package has a checksum, for every platform, and no address of where it was fetched from.
//
// Some mirrors get the packages of other platforms days later than the tool they belong to, and npm then leaves them out of
// the lock without a word; `npm ci` on such a platform would refuse the lock, or install what nobody has checked. If this
// check fails after `npm install`, pin a slightly older version of the tool, all of whose platforms are there.
import { readFileSync } from 'node:fs'

/** What is wrong with a lock, one sentence each. */
export function lockProblems(lock) {
  const entries = Object.entries(lock.packages).filter(([path]) => path !== '')
  const names = new Set(entries.map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)))
  return entries.flatMap(([path, entry]) => [
    ...(path.includes('node_modules/') && !entry.link ? packageProblems(path, entry) : []),
    ...Object.keys(entry.optionalDependencies ?? {})
      .filter((name) => !names.has(name))
      .map((name) => `${path} wants ${name}, which is not in the lock`),
  ])
}

function packageProblems(path, { integrity, resolved }) {
  return [
    ...((integrity ?? '').startsWith('sha512-') ? [] : [`${path} has no checksum (sha512)`]),
    ...(resolved === undefined ? [] : [`${path} names where it was fetched from`]),
  ]
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const problems = lockProblems(JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8')))
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) process.exitCode = 1
  else console.log('package-lock.json: every package has a checksum')
}
