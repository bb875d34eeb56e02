import pg from 'pg'
import { fillHoldfast, Noop, version } from '../../libraries/holdfast.js'
import type { ClaimingLibrary } from './backlog-system.js'
import { CLAIM_SIZE, timeClaims } from './claims.js'

/** The worker's own statement, each beginning where the last one ended. */
export const holdfastClaim: ClaimingLibrary = {
  name: 'holdfast receive',
  version,
  role: 'holdfast',
  config: {},
  async fill(connectionString, { waiting, delayed }) {
    await fillHoldfast(connectionString, delayed, { delay: '1d' })
    await fillHoldfast(connectionString, waiting)
  },
  async open(connectionString) {
    const client = new pg.Client(connectionString)
    await client.connect()
    let mark: number | null = null
    async function claim(): Promise<number> {
      const { rows } = await client.query<Received>({
        name: 'receive',
        text: RECEIVE,
        values: [Noop.type, mark, CLAIM_SIZE],
      })
      const [{ items, marks } = { items: [], marks: [] }] = rows
      mark = marks[0]?.mark ?? null
      return items.length
    }
    return { claims: () => timeClaims(claim), close: () => client.end() }
  },
}

interface Received {
  readonly items: readonly unknown[]
  readonly marks: readonly { readonly mark: number }[]
}

const RECEIVE = `
  select items, marks
  from holdfast.receive_commands(
    'bench__commands', 'bench', array[$1::text], array[$2::float8], 'bench', $3::int, 30000, false, 1000
  )`
