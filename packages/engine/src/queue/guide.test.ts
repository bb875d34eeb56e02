import { readFile } from 'node:fs/promises'
import { testDatabase } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, expect, test } from 'vitest'
import { openDatabase } from '../kernel/database/open.js'
import { createQueueClient } from './client.js'
import { installQueue } from './install/install.js'

const guide = await readFile(new URL('../../../../docs/guides/queues.md', import.meta.url), 'utf8')
const own = await readFile(new URL(import.meta.url), 'utf8')
const { connectionString } = await testDatabase({ empty: true })
const db = await openDatabase({ connectionString })
await installQueue(db)
const hf = { queues: createQueueClient(db) }
const client = new pg.Client({ connectionString })
await client.connect()
await client.query('create table booking (id int primary key)')
afterAll(async () => {
  await client.end()
  await db.close()
})

const shown = (language: string) =>
  [...guide.matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\n\`\`\``, 'g'))].map(([, code = '']) => code)

// The code of the guide, letter by letter (the last test compares).
test('Q-03 the guide’s first example', async () => {
  await hf.queues.send('orders', { id: 7, total: '10.10' })
  const [order] = await hf.queues.read<{ id: number }>('orders', { visibilityTimeout: '1m' })
  if (order) await hf.queues.delete('orders', order.messageId)
  expect(order?.message.id).toBe(7)
  expect(await hf.queues.metrics('orders')).toMatchObject({ length: 0 })
})

test('Q-03 the guide’s transaction', async () => {
  await client.query('begin')
  await client.query('insert into booking (id) values ($1)', [7])
  await hf.queues.send('bookings', { id: 7 }, { transaction: client })
  await client.query('commit')
  expect(await hf.queues.pop('bookings')).toMatchObject({ message: { id: 7 } })
})

test('Q-01 the guide’s SQL, and the SQL inside its other languages', async () => {
  await hf.queues.create('orders')
  const python = shown('python').join('\n')
  for (const [, text = ''] of python.matchAll(/"(select [^"]*)"/g)) {
    const values: (string | number)[] = text.includes('send') ? ['{"id": 8}'] : text.includes('%s') ? [1] : []
    await client.query(text.replace('%s', '$1'), values)
  }
  for (const [, text = ''] of shown('java')
    .join('\n')
    .matchAll(/"(select [^"]*)"/g))
    await client.query(text)
  const { rows } = await client.query(shown('sql').join('\n'))
  expect(rows).toEqual([{ extversion: null, obj_description: 'PGMQ 1.11.1, installed as plain SQL by Holdfast' }])
})

test('Q-03 the guide shows the code that is tested here', () => {
  expect(shown('ts')).toHaveLength(3)
  for (const code of shown('ts').slice(0, 2)) expect(own).toContain(code.replace(/^(?=.)/gm, '  '))
})
