import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import type { EmbeddedServer } from '../src/server.js'

/** A folder for one test, which the server's account can enter unless the mode says otherwise. */
export function scratchFolder(mode = 0o755): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-'))
  chmodSync(folder, mode)
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }))
  return folder
}

/** Stops the server when the test is over, however it went. */
export async function stopAfterTest(starting: Promise<EmbeddedServer>): Promise<EmbeddedServer> {
  const server = await starting
  onTestFinished(() => server.stop({ force: true }))
  return server
}

/** Runs one statement on a connection of its own; the answer is the first column of the first row. */
export async function ask(connectionString: string, statement: string): Promise<unknown> {
  const client = new pg.Client({ connectionString })
  // A connection that the server ends (a test kills it) is seen by the query, not by a crash of the test.
  client.on('error', () => undefined)
  await client.connect()
  try {
    const result = await client.query({ text: statement, rowMode: 'array' })
    return result.rows[0]?.[0]
  } finally {
    await client.end()
  }
}

/** A port that a listener of this test has until the test ends. */
export async function takenPort(port = 0): Promise<number> {
  const listener = createServer()
  await new Promise<void>((resolve) => listener.listen(port, '127.0.0.1', resolve))
  onTestFinished(() => void listener.close())
  const address = listener.address()
  if (typeof address !== 'object' || address === null) throw new Error('no address')
  return address.port
}
