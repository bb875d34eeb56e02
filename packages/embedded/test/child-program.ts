import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import type { EmbeddedOptions } from '../src/options.js'

const build = new URL('../dist/index.js', import.meta.url)

const program = `
  const { startEmbedded } = await import(process.argv[1])
  const { dataDir, port, pid, reused, connectionString, version } = await startEmbedded(JSON.parse(process.argv[2]))
  console.log(JSON.stringify({ dataDir, port, pid, reused, connectionString, version }))
  if (process.argv[3] === 'stay') setInterval(() => undefined, 1_000_000)
`

export interface Started {
  readonly dataDir: string
  readonly port: number
  readonly pid: number
  readonly reused: boolean
  readonly connectionString: string
  readonly version: string
}

export interface ChildOptions {
  /** 'stay' until it is killed, or 'leave' by itself without stop(). */
  readonly afterwards?: 'stay' | 'leave'
  readonly uid?: number
  readonly gid?: number
  readonly cwd?: string
}

/** A real program that runs the build and calls `startEmbedded`; comes back when its server is up. */
export async function startInChild(
  options: EmbeddedOptions,
  how: ChildOptions = {},
): Promise<{ child: ChildProcess; started: Started; ended: Promise<unknown> }> {
  if (!existsSync(build)) throw new Error('the children of this test run the build: tsc -b packages/embedded first')
  const { afterwards = 'stay', ...context } = how
  const args = ['--input-type=module', '-e', program, '--', build.href, JSON.stringify(options), afterwards]
  const child = spawn(process.execPath, args, { cwd: fileURLToPath(new URL('.', build)), ...context, stdio: 'pipe' })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  let problems = ''
  child.stderr.on('data', (chunk: Buffer) => (problems += chunk.toString()))
  const line = await Promise.race([once(createInterface(child.stdout), 'line'), ended.then(() => undefined)])
  if (line === undefined) throw new Error(`the program ended before its server was up: ${problems}`)
  return { child, started: JSON.parse(String(line[0])), ended }
}
