import assert from 'node:assert'
import { readFile } from 'node:fs/promises'
import { behaviour, crashTest, createSimulator, fake, testKit } from '@holdfast/testing'
import { defineCommand, defineProcess, PermanentError, TransientError } from 'holdfast'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { honestBank } from './honest-bank.js'
import { type Bank, paymentVia } from './payment.js'

const Notify = defineCommand('payments', 'Notify', { data: z.object({ payment: z.string() }) })

/** A bank that does as it is told. */
function fakeBank() {
  return {
    book: fake<[payment: string, cents: number, idempotencyKey: string], { reference: string }>((payment) => ({
      reference: `RISK-${payment}`,
    })),
    unbook: fake<[reference: string], void>(() => undefined),
    submit: fake<[payment: string, idempotencyKey: string], string>((payment) => `receipt of ${payment}`),
  }
}

test('X-01 a payment is approved and submitted', async () => {
  const bank = fakeBank()
  const Payment = paymentVia(bank)
  await using kit = await testKit({ register: [Payment] })

  await kit.hf.start(Payment, { payment: 'PAY-1', cents: 25_000 }, { key: 'PAY-1' })
  await kit.hf.process(Payment, 'PAY-1').respond('approved', { by: 'ann' })
  await kit.drain()

  await kit.expectHistory(Payment, 'PAY-1', [
    'PROCESS_CREATED',
    'STEP bookRisk COMPLETED',
    'WAIT approval STARTED',
    'ASYNC_RESPONSE approved COMPLETED',
    'WAIT approval COMPLETED',
    'STEP submit COMPLETED',
    'COMPLETED',
  ])
  expect(bank.submit.calls).toHaveLength(1)
})

test('X-01 not approved within two hours: the risk is released', async () => {
  const bank = fakeBank()
  const Payment = paymentVia(bank)
  await using kit = await testKit({ register: [Payment] })
  await kit.hf.start(Payment, { payment: 'PAY-1', cents: 25_000 }, { key: 'PAY-1' })

  await kit.clock.advance('2h')
  await kit.drain()

  await kit.expectHistory(Payment, 'PAY-1', ['…', 'COMPENSATION bookRisk COMPLETED', 'COMPENSATED WAIT_TIMEOUT'])
  expect(bank.unbook.calls[0]?.args).toEqual(['RISK-PAY-1'])
})

test('X-01 the risk service restarts, and the payment has waited for it', async () => {
  const bank = fakeBank()
  const Payment = paymentVia(bank)
  await using kit = await testKit({ register: [Payment] })

  bank.book.failsOnce(new TransientError('restarting')).failsOnce(new TransientError('restarting'))
  await kit.hf.start(Payment, { payment: 'PAY-1', cents: 25_000 }, { key: 'PAY-1' })
  await kit.hf.process(Payment, 'PAY-1').respond('approved', { by: 'ann' })
  await kit.drain({ skipTime: true })

  expect(await kit.hf.process(Payment, 'PAY-1').result()).toBe('receipt of PAY-1')
  // The same key each time, or the bank would have booked three times.
  const keys = bank.book.calls.map(({ args: [, , idempotencyKey] }) => idempotencyKey)
  expect(keys).toHaveLength(3)
  expect(new Set(keys).size).toBe(1)
})

test('X-01 the handler of a command is faked', async () => {
  await using kit = await testKit()
  const notify = kit.fake(Notify).failsOnce(new PermanentError('no such address')).returns({ sent: true })

  const { id: lost } = await kit.hf.send(Notify, { payment: 'PAY-1' })
  await kit.drain()
  const { id: found } = await kit.hf.send(Notify, { payment: 'PAY-2' })
  await kit.drain()

  await kit.expectHistory(Notify, lost, ['SENT', 'RECEIVED', 'MOVED_TO_TSQ'])
  await kit.expectHistory(Notify, found, ['SENT', 'RECEIVED', 'COMPLETED'])
  expect(notify.calls.map(({ args: [data] }) => data.payment)).toEqual(['PAY-1', 'PAY-2'])
})

test('A-04 X-01 a hundred payments meet a bank that fails now and then and a network that sometimes does not respond', async () => {
  const bank = fakeBank()
  bank.book.behaves(behaviour({ transient: 10, permanent: 3 }, 'seed 7'), (payment) => payment)
  const Payment = paymentVia(bank)
  await using kit = await testKit({ register: [Payment], worker: { concurrency: 20 } })
  const approvals = createSimulator({
    every: '1s',
    find: async () => (await kit.hf.processes.list({ status: 'WAITING_FOR_ASYNC', limit: 1_000 })).items,
    key: ({ key, waitingFor }) => `${key}/${waitingFor}`,
    behaviour: behaviour({ timeout: 5 }, 'seed 7'),
    answer: ({ id }) => kit.hf.process(Payment, id).respond('approved', { by: 'the network' }),
  })

  const payments = Array.from({ length: 100 }, (_, n) => ({
    input: { payment: `PAY-${n}`, cents: 100 },
    key: `PAY-${n}`,
  }))
  await kit.hf.startMany(Payment, payments)
  await kit.drain()
  while ((await approvals.cycle()) > 0) await kit.drain({ skipTime: '1h' })
  await kit.drain({ skipTime: true })

  const ended = (await kit.hf.processes.list({ limit: 1_000 })).items
  const count = (status: string) => ended.filter((payment) => payment.status === status).length
  expect(count('COMPLETED') + count('COMPENSATED') + count('WAITING_FOR_TSQ')).toBe(100)
  expect(count('COMPENSATED')).toBe(approvals.outcomes.TIMEOUT)
})

const carelessVia = (bank: Bank) =>
  defineProcess('payments', 'Careless', {
    state: z.object({ payment: z.string() }),
    async execute(ctx, { payment }) {
      // Not in a step: whoever replays this books again.
      void bank.book(payment, 100, crypto.randomUUID())
      await ctx.step('submit', ({ idempotencyKey }) => bank.submit(payment, idempotencyKey))
    },
  })

test('X-02 a booking outside of a step is found, and its seed printed', async () => {
  const failing = crashTest({
    world: honestBank,
    register: (bank) => [carelessVia(bank)],
    start: (hf, bank) => hf.start(carelessVia(bank), { payment: 'PAY-1' }, { key: 'PAY-1' }),
    invariant: ({ world }) => assert.equal(world.booked.size, 1, 'the money is booked once'),
  })
  await expect(failing).rejects.toThrow(
    /^crashTest: it does not hold when its worker is killed before call submit\n {2}the money is booked once\n {2}rerun exactly this: seed: '0:before call submit#1'$/,
  )
}, 120_000)

test('X-01 X-02 the guide to testing shows code of this file', async () => {
  const text = await readFile(new URL('../../../docs/guides/testing-your-processes.md', import.meta.url), 'utf8')
  const snippets = [...text.matchAll(/```ts\n([\s\S]*?)\n```/g)].map(([, code = '']) => code)
  const files = await Promise.all(
    [
      'guide.test.ts',
      'guide.long.test.ts',
      'honest-bank.ts',
      'payment.ts',
      'crash-worker-process.ts',
      'effects-guide.long.test.ts',
      'refund.ts',
    ].map((file) => readFile(new URL(`./${file}`, import.meta.url), 'utf8')),
  )
  expect(snippets.length).toBeGreaterThan(5)
  for (const snippet of snippets)
    expect(
      files.some((file) => file.includes(snippet)),
      snippet,
    ).toBe(true)
})
