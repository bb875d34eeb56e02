import { startPgBouncer, testDatabase } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import type { Logger } from '../logger.js'
import { openDatabase } from './open.js'

const { connectionString } = await testDatabase({ empty: true })

function recordingLogger(): { logger: Logger; lines: string[] } {
  const lines: string[] = []
  const write = (_: object, message: string) => void lines.push(message)
  return { lines, logger: { debug: () => undefined, info: write, warn: write, error: write } }
}

const SWITCHED_OFF = 'the pooler cannot hold prepared statements: they are switched off'
const texts = Array.from({ length: 10 }, (_, kind) => ({
  name: `add ${kind}`,
  text: `select $1::int + ${kind} as sum`,
}))

test('K-04 behind PgBouncer in transaction mode no statement fails and preparing switches itself off', async (context) => {
  const bouncer = await startPgBouncer(connectionString)
  if (!bouncer) return context.skip('PgBouncer is not installed')
  onTestFinished(() => bouncer.stop())
  const { logger, lines } = recordingLogger()
  const db = await openDatabase({ connectionString: bouncer.connectionString, poolSize: 20, logger })
  onTestFinished(() => db.close())

  const sums = await Promise.all(
    Array.from({ length: 200 }, async (_, number) => {
      const statement = texts[number % texts.length]
      if (!statement) throw new Error('there is no such statement')
      const [row] = await db.run<{ sum: number }>(statement, [number])
      return row?.sum
    }),
  )
  expect(sums).toEqual(Array.from({ length: 200 }, (_, number) => number + (number % 10)))
  expect(lines).toEqual([SWITCHED_OFF])
})

test('K-04 behind PgBouncer a transaction whose prepared statement is missing is retried as a whole', async (context) => {
  const bouncer = await startPgBouncer(connectionString)
  if (!bouncer) return context.skip('PgBouncer is not installed')
  onTestFinished(() => bouncer.stop())
  const { logger, lines } = recordingLogger()
  const db = await openDatabase({ connectionString: bouncer.connectionString, poolSize: 20, logger })
  onTestFinished(() => db.close())

  const total = await Promise.all(
    Array.from({ length: 100 }, (_, number) =>
      db.transaction(
        async (tx) => {
          let count = 0
          for (const statement of texts) count += (await tx.run(statement, [number])).length
          return count
        },
        { retry: true },
      ),
    ),
  )
  expect(total).toEqual(Array.from({ length: 100 }, () => 10))
  expect(lines).toEqual([SWITCHED_OFF])
})

test('K-04 a pooler is recognised, and so is its absence', async (context) => {
  const bouncer = await startPgBouncer(connectionString)
  if (!bouncer) return context.skip('PgBouncer is not installed')
  onTestFinished(() => bouncer.stop())
  const db = await openDatabase({
    connectionString: bouncer.connectionString,
    directConnectionString: connectionString,
  })
  onTestFinished(() => db.close())
  const pooled = await openDatabase({ connectionString: bouncer.connectionString })
  onTestFinished(() => pooled.close())
  expect(await (await db.connect()).isPooled()).toBe(false)
  expect(await (await pooled.connect()).isPooled()).toBe(true)
})
