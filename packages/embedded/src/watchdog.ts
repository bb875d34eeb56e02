import { spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'

/**
 * Starts the small process that removes an ephemeral server when this process is gone, however it ended: it waits for
 * the end of a pipe that the system closes with this process. Returns a function that ends it early.
 */
export function startWatchdog(folder: string, dataDir: string): () => void {
  // One level above this file both in `src` and in `dist`, so that tests on the sources have it too.
  const script = fileURLToPath(new URL('../watchdog.mjs', import.meta.url))
  const { NODE_OPTIONS: _unwanted, ...env } = process.env
  const child = spawn(process.execPath, [script, folder, dataDir], {
    env,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    windowsHide: true,
  })
  child.on('error', () => undefined)
  child.stdin.on('error', () => undefined)
  child.unref()
  if (child.stdin instanceof Socket) child.stdin.unref()
  return () => child.stdin.end()
}
