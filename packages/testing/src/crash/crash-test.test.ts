import assert from 'node:assert'
import { BusinessError, defineCommand, defineManager, defineProcess, stepCommand, TransientError } from 'holdfast'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { crashTest } from './crash-test.js'

/** Outside of everything that can be killed here: it books once per key, and counts all calls. */
function createBank() {
  const calls: string[] = []
  const booked = new Map<string, string>()
  return {
    calls,
    booked,
    book(key: string, what: string) {
      calls.push(what)
      booked.set(key, what)
      return { reference: `REF-${booked.size}` }
    },
    times: (what: string) => [...booked.values()].filter((one) => one === what).length,
  }
}
type Bank = ReturnType<typeof createBank>

const approvals = {
  approved: {
    data: z.object({ by: z.string() }),
    apply: (state: { approvals: number }) => {
      state.approvals += 1
    },
  },
}

function paymentVia(bank: Bank) {
  return defineProcess('payments', 'Payment', {
    state: z.object({ approvals: z.number().default(0) }),
    responses: approvals,
    async execute(ctx, state) {
      await ctx.step('book', {
        run: async ({ idempotencyKey, attempt }) => {
          if (attempt === 1) throw new TransientError('restarting')
          return bank.book(idempotencyKey, 'risk')
        },
        maxAttempts: 3,
        retryDelay: '5s',
      })
      await ctx.wait('approval', () => state.approvals > 0, { timeout: '2h' })
      await ctx.transaction('ledger', async (tx) => {
        await tx.query('insert into ledger values ($1)', [ctx.id])
      })
      await ctx.step('submit', { run: async ({ idempotencyKey }) => bank.book(idempotencyKey, 'submission') })
      return state.approvals
    },
  })
}

test('X-02 a process that keeps the rules holds its invariant at every kill point', async () => {
  const report = await crashTest({
    world: createBank,
    register: (bank) => [paymentVia(bank)],
    prepare: 'create table ledger (id uuid not null)',
    start: (hf, bank) => hf.start(paymentVia(bank), {}, { key: 'PAY-1' }),
    respond: (hf, { id }, bank) => [
      () => hf.respond(paymentVia(bank), id, 'approved', { by: 'ann' }, { responseId: 'ann' }),
      () => hf.respond(paymentVia(bank), id, 'approved', { by: 'bob' }, { responseId: 'bob' }),
    ],
    async invariant({ hf, sql, subject, world }) {
      const { status } = await hf.processes.get({ domain: 'payments', type: 'Payment' }, subject.id)
      assert.equal(status, 'COMPLETED')
      assert.deepEqual([world.times('risk'), world.times('submission')], [1, 1])
      assert.equal((await sql('select from ledger')).length, 1)
    },
  })
  expect(report.kills).toBeGreaterThan(10)
  expect(report.killPoints).toEqual(expect.arrayContaining(['before processes.write#1', 'after commit#1']))
  expect(report.killPoints.some((point) => point.includes('claim'))).toBe(false)
}, 120_000)
