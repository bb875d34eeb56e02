import { type AddressInfo, connect, createServer } from 'node:net'
import { inspect } from 'node:util'
import { testDatabase } from '@holdfast/testing/internal'
import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Database } from './database.js'
import { openDatabase } from './open.js'
import type { DatabaseOptions } from './options.js'

const { connectionString } = await testDatabase({ empty: true })
const SECRET = 'tOps3cret'

function changed(change: (url: URL) => void): string {
  const url = new URL(connectionString)
  url.password = SECRET
  change(url)
  return url.href
}

async function refusal(options: DatabaseOptions): Promise<Error & { code?: string; cause?: unknown }> {
  return openDatabase(options).then(
    () => expect.unreachable('the database was opened'),
    (error) => error,
  )
}

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'TCPSocketWrap').length
}

const UNREACHABLE: [string, () => string, RegExp][] = [
  ['a refused port', () => changed((url) => (url.port = '1')), /nothing listens there/],
  ['an unknown host', () => changed((url) => (url.hostname = 'nowhere.invalid')), /the host is unknown/],
  [
    'an unknown database',
    () => connectionString.replace(/\/[^/]*$/, '/no_such_database'),
    /no_such_database.*does not exist/,
  ],
  ['an unknown role', () => changed((url) => (url.username = 'no_such_role')), /no_such_role/],
  ['garbage', () => `garbage ${SECRET}`, /not an address such as postgres:/],
  ['another protocol', () => `mysql://root:${SECRET}@localhost/x`, /not an address such as postgres:/],
  ['an impossible port', () => `postgres://app:${SECRET}@localhost:99999999/x`, /percent-encoded/],
  ['an unencoded password', () => `postgres://app:1${SECRET}/x@localhost/x`, /percent-encoded/],
  ['a password that looks like a port', () => `postgres://app:12/${SECRET}@localhost/x`, /the given connection string/],
]

test.each(UNREACHABLE)('%s is one clear error without the password', async (_, address, problem) => {
  const before = openSockets()
  const error = await refusal({ connectionString: address() })
  expect(error).toMatchObject({ code: 'HF_DATABASE_UNREACHABLE', message: expect.stringMatching(problem) })
  expect(inspect(error)).not.toContain(SECRET)
  // Those of tests before this one may still be closing.
  await vi.waitFor(() => expect(openSockets()).toBeLessThanOrEqual(before))
})

test('a wrong password is one clear error that does not repeat it', async (context) => {
  const admin = new pg.Client({ connectionString })
  await admin.connect()
  onTestFinished(() => admin.end())
  const role = `hf_password_${process.pid}_${Date.now()}`
  await admin.query(`create role ${role} login password 'right'`)
  onTestFinished(async () => void (await admin.query(`drop role ${role}`)))
  const attempt = openDatabase({ connectionString: changed((url) => (url.username = role)) })
  const outcome = await attempt.catch((error) => error)
  if (!(outcome instanceof Error)) {
    await outcome.close()
    return context.skip('this server trusts everybody who connects from here')
  }
  expect(outcome).toMatchObject({ code: 'HF_DATABASE_UNREACHABLE', message: expect.stringContaining(role) })
  expect(outcome.message).not.toContain(SECRET)
})

test('without any address the error says where one can be given', async () => {
  vi.stubEnv('DATABASE_URL', '')
  onTestFinished(() => void vi.unstubAllEnvs())
  expect(await refusal({})).toMatchObject({
    code: 'HF_INVALID_OPTION',
    message: expect.stringContaining('DATABASE_URL'),
  })
})

test('DATABASE_URL is used where nothing else is given', async () => {
  vi.stubEnv('DATABASE_URL', connectionString)
  onTestFinished(() => void vi.unstubAllEnvs())
  const db = await openDatabase()
  expect(await db.run({ name: 'where', text: 'select current_database() as name' })).toEqual([
    { name: new URL(connectionString).pathname.slice(1) },
  ])
  await db.close()
})

test.each<[string, DatabaseOptions]>([
  ['poolSize', { poolSize: 0 }],
  ['statementTimeout', { statementTimeout: 0 }],
  ['schema', { schema: '' }],
  ['applicationName', { applicationName: '' }],
])('a bad %s is refused before anything is connected to', async (option, options) => {
  expect(await refusal({ connectionString: changed((url) => (url.port = '1')), ...options })).toMatchObject({
    code: 'HF_INVALID_OPTION',
    details: { option },
  })
})

test("a user's pool is used, listened to and left open", async () => {
  const pool = new pg.Pool({ connectionString, max: 2 })
  onTestFinished(() => pool.end())
  const db = await openDatabase({ pool })
  expect(db.target).not.toContain(new URL(connectionString).password || '\u0000')
  expect(await db.run({ name: 'one', text: 'select 1 as one' })).toEqual([{ one: 1 }])
  expect(pool.totalCount).toBe(1)
  const direct = await db.connect()
  await direct.query('select 1')
  await db.close()
  expect(pool.listenerCount('error')).toBe(0)
  expect((await pool.query('select 2 as two')).rows).toEqual([{ two: 2 }])
})

test('a pool and a connection string at once are refused', async () => {
  const pool = new pg.Pool({ connectionString })
  onTestFinished(() => pool.end())
  expect(await refusal({ pool, connectionString })).toMatchObject({
    code: 'HF_INVALID_OPTION',
    details: { option: 'pool' },
  })
})

test('close can be called twice, and nothing runs afterwards', async () => {
  const db: Database = await openDatabase({ connectionString })
  const direct = await db.connect()
  await Promise.all([db.close(), db.close()])
  await expect(db.run({ name: 'one', text: 'select 1' })).rejects.toMatchObject({ code: 'HF_STOPPED' })
  await expect(db.connect()).rejects.toMatchObject({ code: 'HF_STOPPED' })
  await expect(direct.query('select 1')).rejects.toThrow()
})

test('connections have an application name', async () => {
  const name = { name: 'name', text: "select current_setting('application_name') as name" }
  const plain = await openDatabase({ connectionString })
  const named = await openDatabase({ connectionString, applicationName: 'shop' })
  expect([...(await plain.run(name)), ...(await named.run(name))]).toEqual([{ name: 'holdfast' }, { name: 'shop' }])
  await Promise.all([plain.close(), named.close()])
})

/** A server that starts up: refuses so many connections with the given SQLSTATE, then is the real one. */
async function startingServer(
  refusals: number,
  state: string,
): Promise<{ connectionString: string; refused: () => number }> {
  const real = new URL(connectionString)
  const target = { host: real.hostname, port: Number(real.port) }
  const fields = ['SFATAL', 'VFATAL', `C${state}`, 'Mthe database system is starting up', ''].join('\0')
  const answer = Buffer.concat([Buffer.from('E'), Buffer.alloc(4), Buffer.from(`${fields}\0`)])
  answer.writeInt32BE(answer.length - 1, 1)
  let refused = 0
  const server = createServer((client) => {
    client.on('error', () => undefined)
    if (refused < refusals) {
      refused += 1
      client.once('data', () => (state === 'DROPPED' ? client.destroy() : client.end(answer)))
      return
    }
    const upstream = connect(target)
    upstream.on('error', () => client.destroy())
    client.pipe(upstream).pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  real.hostname = '127.0.0.1'
  real.port = String((server.address() as AddressInfo).port)
  return { connectionString: real.href, refused: () => refused }
}

test.each(['57P03', '53300', 'DROPPED'])('K-11 opening waits for a server that reports %s', async (state) => {
  const server = await startingServer(3, state)
  const db = await openDatabase({ connectionString: server.connectionString })
  onTestFinished(() => db.close())
  expect(server.refused()).toBe(3)
  expect(await db.run({ name: 'one', text: 'select 1 as one' })).toEqual([{ one: 1 }])
})

test('K-11 opening gives up after its time limit, with one clear error', async () => {
  const server = await startingServer(1_000, '57P03')
  const error = await refusal({ connectionString: server.connectionString, connectTimeout: '300ms' })
  expect(error).toMatchObject({ code: 'HF_DATABASE_UNREACHABLE', message: expect.stringContaining('starting up') })
})

test('K-11 opening waits for a server that is not listening yet, where a time limit is given', async () => {
  const placeholder = createServer()
  await new Promise<void>((resolve) => placeholder.listen(0, '127.0.0.1', resolve))
  const { port } = placeholder.address() as AddressInfo
  await new Promise((resolve) => placeholder.close(resolve))
  const opening = openDatabase({
    connectionString: changed((url) => {
      url.hostname = '127.0.0.1'
      url.port = String(port)
      url.password = new URL(connectionString).password
    }),
    connectTimeout: '20s',
  })
  const real = new URL(connectionString)
  const server = createServer((client) => {
    const upstream = connect(Number(real.port), real.hostname)
    for (const socket of [client, upstream]) socket.on('error', () => client.destroy())
    client.pipe(upstream).pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const db = await opening
  await db.close()
})
