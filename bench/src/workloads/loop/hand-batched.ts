import { readFile } from 'node:fs/promises'
import pg from 'pg'
import { versionOf } from '../../harness/version.js'
import type { Run, System, Task } from '../../harness/workload.js'
import { anythingLeft, fillTiny, TYPE } from './tiny-items.js'

interface Config {
  readonly connections: number
  readonly batch: number
}

/**
 * What the hardware allows: a script of one process that claims and completes in batches, two statements each, with
 * the best query shapes we know. No code runs per item, nothing is fenced and nothing is extended.
 */
export function handBatched(config: Config): System {
  return {
    name: 'hand-batched SQL',
    version: `pg ${versionOf('pg')}`,
    role: 'ceiling',
    config: { ...config },
    anythingLeft,
    prepare: (task) =>
      fillTiny(task, async (db) => {
        const text = await readFile(new URL('../../../sql/hand-batched.sql', import.meta.url), 'utf8')
        await db.transaction(async (tx) => {
          await tx.query(text)
        })
      }),
    open: (task) => open(task, config),
  }
}

async function open({ connectionString }: Task, { connections, batch }: Config): Promise<Run> {
  const clients = Array.from({ length: connections }, () => new pg.Client(connectionString))
  await Promise.all(clients.map((client) => client.connect()))
  return {
    async work() {
      await Promise.all(clients.map((client) => drain(client, batch)))
    },
    async close() {
      await Promise.all(clients.map((client) => client.end()))
    },
  }
}

async function drain(client: pg.Client, batch: number): Promise<void> {
  for (;;) {
    // The ids come and go as one text: nothing is gained by taking them apart here.
    const { rows } = await client.query<{ ids: string | null }>({
      name: 'claim',
      text: 'select holdfast.hand_claim($1, $2)::text as ids',
      values: [TYPE, batch],
    })
    const ids = rows[0]?.ids
    if (!ids) return
    await client.query({ name: 'complete', text: 'select holdfast.hand_complete($1)', values: [ids] })
  }
}
