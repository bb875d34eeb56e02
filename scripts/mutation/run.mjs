// Runs tests on a mutated copy of the sources, within a time limit.
import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const COPIED = ['packages', 'test', 'examples', 'bench', 'scripts']

/** A copy of the repository to be mutated: the one that people work in is never touched. */
export function copyRepository(from) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-mutation-'))
  for (const name of readdirSync(from)) {
    if (COPIED.includes(name)) cpSync(join(from, name), join(folder, name), { recursive: true })
    else if (name !== '.git') symlinkSync(join(from, name), join(folder, name))
  }
  // Not through the link: a configuration belongs to the folder that it lies in.
  for (const name of ['vitest.config.ts', 'package.json', 'tsconfig.base.json']) {
    rmSync(join(folder, name))
    cpSync(join(from, name), join(folder, name))
  }
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/**
 * 'passed', 'failed' or 'timeout'. A mutant that hangs is ended with everything that it has started, so that none ever hangs
 * the runner.
 */
export function runTests(folder, tests, { timeoutMs, config }) {
  return new Promise((resolve) => {
    const args = ['vitest', 'run', '--bail', '1', '--config', config, ...tests]
    const child = spawn('npx', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    let output = ''
    const hear = (chunk) => {
      output = `${output}${chunk}`.slice(-20_000)
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    let late = false
    const timer = setTimeout(() => {
      late = true
      end(child.pid)
    }, timeoutMs)
    child.on('close', (code) => {
      clearTimeout(timer)
      // What it has started and left behind.
      end(child.pid)
      resolve({ outcome: late ? 'timeout' : code === 0 ? 'passed' : 'failed', output })
    })
  })
}

function end(pid) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Gone already.
  }
}
