import { readdir, readFile } from 'node:fs/promises'
import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { defineCommand, defineDispatch, defineProcess, holdfast, processTarget } from 'holdfast'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'

const repository = new URL('../../../', import.meta.url)
const inRepository = (path: string) => readFile(new URL(path, repository), 'utf8')

const files = await readdir(new URL('examples/basics/src', repository), { recursive: true })
const payments = ['models', 'submission']
const paymentFiles = await Promise.all(
  payments.map(async (folder) =>
    (await readdir(new URL(`examples/payments/src/${folder}`, repository))).map((name) => `${folder}/${name}`),
  ),
)
const examples = await Promise.all([
  ...files.filter((file) => file.endsWith('.ts')).map((file) => inRepository(`examples/basics/src/${file}`)),
  ...paymentFiles.flat().map((file) => inRepository(`examples/payments/src/${file}`)),
])
// What stands inside a block there is shown without its indentation.
const sources = [...examples, ...examples.map((example) => example.replaceAll(/^ {2}/gm, ''))]

async function shown(guide: string, language: string): Promise<string[]> {
  const text = await inRepository(`docs/guides/${guide}.md`)
  return [...text.matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\n\`\`\``, 'g'))].map(([, code = '']) => code)
}

test.each([
  ['C-01', 'commands', 8],
  ['U-06', 'troubleshooting', 4],
  ['C-12', 'batches', 4],
  ['R-01', 'rate-limits', 5],
  ['P-02', 'first-process', 7],
  ['M-01', 'process-managers', 4],
  ['D-01', 'dispatch', 4],
  ['W-01', 'workflows', 21],
  ['A-02', 'payments-walkthrough', 7],
])('%s the guide on %s shows code of examples that run', async (_, guide, count) => {
  const snippets = await shown(guide, 'ts')
  expect(snippets).toHaveLength(count)
  for (const snippet of snippets) {
    expect(
      sources.some((source) => source.includes(`${snippet}\n`)),
      snippet,
    ).toBe(true)
  }
})

test('W-14 the guide on workflows shows what the examples print, and the definition that one of them loads', async () => {
  const expected = await inRepository('test/src/demo/examples.matrix.test.ts')
  const outputs = [...(await shown('workflows', 'text')), ...(await shown('workflows', 'mermaid'))]
  expect(outputs).toHaveLength(6)
  for (const line of outputs.flatMap((output) => output.split('\n'))) {
    expect(expected.includes(`'${line}',`) || expected.includes(`"${line}",`), line).toBe(true)
  }
  expect(await shown('workflows', 'json')).toEqual([
    (await inRepository('examples/basics/order-workflow.json')).trimEnd(),
  ])
})

test('K-15 C-07 the SQL that the guide gives to other languages sends commands', async () => {
  const { connectionString } = await testDatabase()
  const hf = await holdfast({ connectionString })
  const client = new pg.Client({ connectionString })
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await hf.close()
  })
  const booked: string[] = []
  const data = z.object({ payment: z.string(), cents: z.int().positive() })
  const BookRisk = defineCommand('payments', 'BookRisk', { data })
  hf.handle(BookRisk, ({ payment }) => void booked.push(payment))
  await hf.run()

  const [python = '', java = '', sql = ''] = await Promise.all(
    ['python', 'java', 'sql'].map(async (language) => (await shown('commands', language)).join('\n')),
  )
  const [, fromPython = ''] = /"(select .*?)"/.exec(python) ?? []
  await client.query(fromPython.replace('%s', '$1'), [/\['(.*)'\]/.exec(python)?.[1]])
  const [fromJava, given] = [/"(select .*)"\);/, /setString\(1, "(.*)"\)/].map((text) =>
    text.exec(java)?.[1]?.replaceAll('\\"', '"'),
  )
  await client.query(fromJava?.replace('?', '$1') ?? '', [given])
  await client.query(sql)

  await waitFor('two of them are booked', () => booked.length === 2)
  expect(booked.sort()).toEqual(['PAY-7', 'PAY-9'])
  const [delayed] = (await hf.commands.list({ domain: 'payments', status: 'PENDING' })).items
  expect(delayed).toMatchObject({ data: { payment: 'PAY-8', cents: 800 }, key: 'PAY-8', attempts: 0 })
  expect(delayed?.dueAt?.getTime()).toBe((delayed?.createdAt.getTime() ?? 0) + 600_000)
})

test('R-03 the SQL of the guide on rate limits changes them', async () => {
  const { connectionString } = await testDatabase()
  const hf = await holdfast({ connectionString })
  const client = new pg.Client({ connectionString })
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await hf.close()
  })
  for (const snippet of await shown('rate-limits', 'sql')) await client.query(snippet)
  expect(await hf.limits.list()).toMatchObject([
    { key: 'risk_api', ticketsPerSecond: 5, burst: 5, description: 'calls of the risk service' },
  ])
})

test('D-02 the SQL of the guide on dispatch changes its configuration', async () => {
  const { connectionString } = await testDatabase()
  const hf = await holdfast({ connectionString })
  const client = new pg.Client({ connectionString })
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await hf.close()
  })
  const Settle = defineProcess('payments', 'Settle', { state: z.object({}), execute: async () => undefined })
  const Settlement = defineDispatch('payments', 'Settlement', { target: processTarget(Settle) })
  await hf.schedule(Settlement, { key: 'PAY-1', context: {}, startAt: new Date('2031-01-01T00:00:00Z') })
  for (const snippet of await shown('dispatch', 'sql')) await client.query(snippet)
  expect(await hf.dispatch.settings(Settlement)).toMatchObject({
    enabled: false,
    batchSize: 1_000,
    dispatchInterval: 2_000,
  })
})

test('K-15 P-11 the SQL of the guide to the first process responds to it', async () => {
  const { connectionString } = await testDatabase()
  const hf = await holdfast({ connectionString })
  const client = new pg.Client({ connectionString })
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await hf.close()
  })
  const Payment = defineProcess('payments', 'Payment', {
    state: z.object({}),
    responses: { approved: { data: z.object({ by: z.string() }) } },
    execute: async (ctx) => (await ctx.event('approval', 'approved')).by,
  })
  hf.register(Payment)
  await hf.run()
  await hf.start(Payment, {}, { key: 'PAY-1' })
  const snippets = await shown('first-process', 'sql')
  expect(snippets).toHaveLength(1)
  await client.query(snippets.join('\n'))
  expect(await hf.process(Payment, 'PAY-1').result()).toBe('ann')
})
