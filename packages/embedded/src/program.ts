import { spawn } from 'node:child_process'
import { dirname } from 'node:path'
import type { Account } from './account.js'

export interface ProgramResult {
  readonly code: number | null
  readonly output: string
}

export interface ProgramOptions {
  readonly account?: Account | undefined
  readonly input?: string
}

/** Runs a program of PostgreSQL to its end, under the server's account. Rejects when it cannot be started at all. */
export function runProgram(path: string, args: string[], options: ProgramOptions = {}): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(path, args, { ...spawnContext(path, options.account), stdio: 'pipe' })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    // The exit code shows that a program has ended before it has read its input.
    child.stdin.on('error', () => undefined)
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output: output.trim() }))
    child.stdin.end(options.input ?? '')
  })
}

/**
 * What every program of PostgreSQL is started with. The caller's own PG* variables would redirect it to another data
 * directory or port, and the caller's folder may be one that the server's account cannot enter.
 */
export function spawnContext(path: string, account: Account | undefined) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('PG') && !name.startsWith('LC_'))
  const env = { ...Object.fromEntries(inherited), LANG: 'C', LC_ALL: 'C', TZ: 'UTC' }
  return { cwd: dirname(path), env, windowsHide: true, ...(account && { uid: account.uid, gid: account.gid }) }
}
