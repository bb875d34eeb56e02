import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

// The build, as `npm run bench` runs it.
const program = fileURLToPath(new URL('../dist/main.js', import.meta.url))

/** The program with these arguments, in a process of its own. */
export function start(args: string[], env: NodeJS.ProcessEnv = {}) {
  // On a server of its own unless it is given one: that of the tests may have fsync off.
  const { DATABASE_URL: _unwanted, ...inherited } = process.env
  const child = spawn(process.execPath, [program, ...args], { env: { ...inherited, ...env } })
  const stdout = text(child.stdout)
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    said += chunk
  })
  const ended = once(child, 'close').then(async ([code]) => ({ code, stdout: await stdout, stderr: said }))
  return { child, ended, said: () => said }
}
