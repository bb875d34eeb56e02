import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** A PgBouncer of the test's own, in transaction mode, in front of the server of a connection string. */
export interface RunningPgBouncer {
  readonly connectionString: string
  stop(): Promise<void>
}

const PLACES = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/usr/local/bin/pgbouncer', '/opt/homebrew/bin/pgbouncer']
const READY_WITHIN = 10_000

/**
 * Starts PgBouncer where it is installed; undefined where it is not, so that a test can say that it is skipped.
 *
 * @example
 * const bouncer = await startPgBouncer(connectionString)
 * if (!bouncer) return context.skip('PgBouncer is not installed')
 */
export async function startPgBouncer(connectionString: string): Promise<RunningPgBouncer | undefined> {
  const program = PLACES.find((place) => existsSync(place))
  if (program === undefined) return undefined
  const server = new URL(connectionString)
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-pgbouncer-'))
  const settings = join(folder, 'pgbouncer.ini')
  writeFileSync(settings, settingsFor(server, port, preparedStatementsOff(program)))
  const identity = unprivileged()
  if (identity) for (const path of [settings, folder]) chownSync(path, identity.uid, identity.gid)
  const child = spawn(program, ['-q', settings], { ...identity, stdio: ['ignore', 'ignore', 'pipe'] })
  const killWithUs = () => child.kill('SIGKILL')
  process.once('exit', killWithUs)
  const stop = async () => {
    process.removeListener('exit', killWithUs)
    if (child.exitCode === null && child.kill('SIGINT')) await once(child, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await ready(child, port)
  } catch (error) {
    await stop()
    throw error
  }
  const address = new URL(connectionString)
  address.host = `127.0.0.1:${port}`
  return { connectionString: address.href, stop }
}

/** It accepts all users of this machine and logs on to the server as the user of the connection string. */
function settingsFor(server: URL, port: number, extra: string): string {
  const quoted = (text: string) => `'${decodeURIComponent(text).replaceAll("'", "''")}'`
  const target = [
    `host=${server.hostname}`,
    `port=${server.port || '5432'}`,
    `user=${quoted(server.username)}`,
    ...(server.password === '' ? [] : [`password=${quoted(server.password)}`]),
  ]
  return `[databases]
* = ${target.join(' ')}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
${extra}
`
}

/** From 1.21 on PgBouncer can hold prepared statements; the tests are about those that cannot. */
function preparedStatementsOff(program: string): string {
  const [, minor = '0'] = /PgBouncer 1\.(\d+)/i.exec(execFileSync(program, ['--version'], { encoding: 'utf8' })) ?? []
  return Number(minor) >= 21 ? 'max_prepared_statements = 0' : ''
}

/** PgBouncer refuses to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (option: string) => Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('the system gave no port')
  return address.port
}

async function ready(child: ChildProcess, port: number): Promise<void> {
  let said = ''
  child.stderr?.on('data', (text) => {
    said += text
  })
  const deadline = performance.now() + READY_WITHIN
  while (!(await accepts(port))) {
    if (child.exitCode !== null || performance.now() > deadline) throw new Error(`PgBouncer did not start: ${said}`)
    await sleep(20)
  }
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const open = new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
  })
  const result = await open
  socket.destroy()
  return result
}
