#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { startTestServer } from './test-server.js'

// Runs a command with the PostgreSQL of a test run, for runners without a global setup such as node:test:
// `holdfast-with-server node --test`. It ends as the command ends.
const [command, ...args] = process.argv.slice(2)
if (command === undefined) {
  console.error('usage: holdfast-with-server <command> [arguments], for example: holdfast-with-server node --test')
  process.exit(2)
}
const stop = await startTestServer()
const child = spawn(command, args, { stdio: 'inherit' })
// The command gets a Ctrl-C too, and decides; what is sent to this process alone is passed on.
process.on('SIGINT', () => undefined)
process.on('SIGTERM', () => void child.kill('SIGTERM'))
const ended = once(child, 'exit').catch((error: unknown) => {
  console.error(`cannot run ${command}: ${String(error)}`)
  return [127]
})
const [code] = await ended
await stop()
process.exitCode = typeof code === 'number' ? code : 1
