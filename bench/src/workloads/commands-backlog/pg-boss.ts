import { closeBoss, fillBoss, openBoss, QUEUE, version } from '../../libraries/pg-boss.js'
import type { ClaimingLibrary } from './backlog-system.js'
import { CLAIM_SIZE, timeClaims } from './claims.js'

const DAY_MS = 86_400_000

/** What its worker calls too. */
export const pgBossClaim: ClaimingLibrary = {
  name: 'pg-boss fetch',
  version,
  role: 'peer',
  config: {},
  async fill(connectionString, { waiting, delayed }) {
    await fillBoss(connectionString, delayed, new Date(Date.now() + DAY_MS))
    await fillBoss(connectionString, waiting)
  },
  async open(connectionString) {
    const boss = await openBoss(connectionString)
    const claim = async () => (await boss.fetch(QUEUE, { batchSize: CLAIM_SIZE })).length
    return { claims: () => timeClaims(claim), close: () => closeBoss(boss) }
  },
}
