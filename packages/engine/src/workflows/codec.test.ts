import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { observeWorkflows, openTestBus } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { type Codec, createCodec } from '../kernel/codec/codec.js'
import { defineWorkflow } from './define.js'

/** Everything is one encrypted text; what it was is known to who has the key. */
function encrypting(key: Buffer): Codec {
  const plain = createCodec()
  return {
    encode(value, options) {
      const iv = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', key, iv)
      const text = JSON.stringify(plain.encode(value, options))
      const body = Buffer.concat([cipher.update(text), cipher.final()])
      return { json: JSON.stringify(Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64')), notes: null }
    },
    decode({ json }) {
      const bytes = Buffer.from(String(json), 'base64')
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12))
      decipher.setAuthTag(bytes.subarray(12, 28))
      const text = Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString()
      const { json: inner, notes } = JSON.parse(text)
      return plain.decode({ json: JSON.parse(inner), notes })
    },
  }
}

const Flow = defineWorkflow('test', 'secret')
  .step('a', 'Work')
  .condition('large', '{{ gt .total 99999999999999999999 }}')
  .fork(
    'f',
    (b) => b.step('b', 'Work'),
    (b) => b.step('c', 'Work'),
  )
  .join('j', 'all')
  .step('d', 'Work')
  .build()

test('K-10 W-06 W-07 a codec that encrypts: conditions and joins see the values, and the database sees none', async () => {
  const bus = await openTestBus({ codec: encrypting(randomBytes(32)) })
  const see = observeWorkflows(bus)
  const seen: Record<string, unknown> = {}
  bus.hf.handle('Work', (input, { stepName }) => {
    seen[stepName] = input
    return { total: 100_000_000_000_000_000_000n, at: new Date(0), of: `topsecret ${stepName}` }
  })
  await bus.hf.run({ poll: '20ms' })
  const { id } = await bus.hf.start(Flow, { card: 'topsecret' })
  const { output } = await see.until(id, 'COMPLETED')
  const of = (step: string) => ({ total: 100_000_000_000_000_000_000n, at: new Date(0), of: `topsecret ${step}` })
  expect(seen).toEqual({ a: { card: 'topsecret' }, b: of('a'), c: of('a'), d: { b: of('b'), c: of('c') } })
  expect(output).toEqual(of('d'))
  const leaked = await bus.sql(
    `select 1 from holdfast.workflow_step where to_jsonb(workflow_step)::text like '%topsecret%'
     union all select 1 from holdfast.workflow where to_jsonb(workflow)::text like '%topsecret%'`,
  )
  expect(leaked).toEqual([])
  await bus.close()
})

test('K-10 a service with another key: its steps fail for good with what is wrong, conditions too, and no instance hangs', async () => {
  const bus = await openTestBus({ codec: encrypting(randomBytes(32)) })
  const other = await openTestBus({ codec: encrypting(randomBytes(32)), connectionString: bus.connectionString })
  const see = observeWorkflows(bus)
  other.hf.handle('Work', () => ({ total: 1 }))
  await other.hf.run({ poll: '20ms' })
  const { id } = await bus.hf.start(Flow, 1)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'a' })
  const Human = defineWorkflow('test', 'secret human').waitHumanConfirm('ok').condition('c', '{{ gt .n 1 }}').build()
  const { id: waiting } = await bus.hf.start(Human, { n: 5 })
  await other.hf.workflow(waiting).decide('ok', 'confirm', { actor: 'ann', reason: 'fine' })
  expect((await see.until(waiting, 'FAILED')).error).toMatchObject({ step: 'c', code: 'HF_NOT_DECODABLE' })
  await Promise.all([bus.close(), other.close()])
})
