// Clears away an ephemeral server whose owner is gone. A plain script of its own, started by src/watchdog.ts: it must
// outlive the process that starts it and load nothing from it. Arguments: the folder to remove, the data directory in it.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

const [folder, dataDir] = process.argv.slice(2)
const GIVE_UP_MS = 30_000
const HARDER_AFTER_MS = 5_000

// Only the end of the pipe counts: a signal to the whole service may come long before its owner has finished.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined)
process.stdin.resume()
process.stdin.on('error', () => undefined)
process.stdin.on('close', () => void clearAway())

// In a loop, because a server or initdb may be just starting, and would put files back after the first removal.
async function clearAway() {
  const begun = performance.now()
  while (existsSync(folder) && performance.now() - begun < GIVE_UP_MS) {
    const pid = postmaster()
    if (pid === undefined) removeFolder()
    else signal(pid, performance.now() - begun < HARDER_AFTER_MS ? 'SIGQUIT' : 'SIGKILL')
    await delay(50)
  }
}

function postmaster() {
  try {
    const pid = Number(readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n')[0])
    return pid > 0 && commandLine(pid).includes(dataDir) ? pid : undefined
  } catch {
    // No pid file, or no such process: nothing to stop.
    return undefined
  }
}

function commandLine(pid) {
  if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  return execFileSync('ps', ['-ww', '-p', String(pid), '-o', 'command='], { encoding: 'utf8' })
}

function signal(pid, name) {
  try {
    process.kill(pid, name)
  } catch {
    // Gone in between; the next round sees it.
  }
}

function removeFolder() {
  try {
    // By `rm` as root, as in src/files-for-account.ts: Node goes by names, where a link could be put meanwhile.
    if (process.getuid?.() === 0) execFileSync('rm', ['-rf', '--', folder], { stdio: 'ignore' })
    else rmSync(folder, { recursive: true, force: true })
  } catch {
    // Something was written while it was removed; the next round tries again.
  }
}
