import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { Payments } from '../app.js'
import { parseInput } from '../domain/order.js'
import { hasEnded } from '../domain/status.js'
import type { Standing } from '../submission/standing.js'
import { notFound } from './problem.js'
import type { Answer, Request, Routes } from './router.js'

const LONGEST_WAIT = 30

const text = z.string().min(1).max(2_000)
const Cancellation = z.strictObject({ by: text, reason: text })
const IdempotencyKey = z.object({ 'Idempotency-Key': z.string().max(200).optional() })

/** Submits payments and shows their status. */
export function paymentRoutes(payments: Payments): Routes {
  /** 200 when it has ended; otherwise 202, with what it waits for. */
  async function standingOf(id: string): Promise<{ readonly standing: Standing; readonly answer: Answer }> {
    const standing = isId(id) ? await payments.standing(id) : undefined
    if (!standing) throw notFound(`payment ${id}`)
    // The state of a process is shown as of its last suspension, so a payment that was just settled is complete only after the next.
    const moves = standing.process === 'EXECUTING' || standing.process === 'COMPENSATING'
    const status = hasEnded(standing.payment.status) && !moves ? 200 : 202
    return { standing, answer: { status, body: shown(standing), headers: { location: `/payments/${id}` } } }
  }

  async function submit({ body, headers }: Request): Promise<Answer> {
    const { 'Idempotency-Key': key } = parseInput(IdempotencyKey, { 'Idempotency-Key': headers['idempotency-key'] })
    const { payment } = await payments.submit(await body(), key || undefined)
    const until = performance.now() + waitFrom(headers.prefer) * 1_000
    for (;;) {
      const { answer } = await standingOf(payment.id)
      if (answer.status === 200 || performance.now() >= until) return answer
      await sleep(25)
    }
  }

  return {
    'POST /payments': submit,
    'GET /payments/:id': async ({ params }) => {
      const { answer } = await standingOf(params.id ?? '')
      return { ...answer, status: 200 }
    },
    'POST /payments/:id/cancel': async ({ params, body }) => {
      const { standing } = await standingOf(params.id ?? '')
      const { by, reason } = parseInput(Cancellation, await body())
      await payments.cancel(standing.payment.id, { actor: by, reason })
      return (await standingOf(standing.payment.id)).answer
    },
  }
}

const isId = (id: string): boolean => z.uuid().safeParse(id).success

/** `Prefer: wait=10` (RFC 7240): how many seconds the caller waits for the end. */
function waitFrom(prefer: string | string[] | undefined): number {
  const [, seconds = '0'] = /\bwait=(\d+)/.exec(String(prefer ?? '')) ?? []
  return Math.min(Number(seconds), LONGEST_WAIT)
}

function shown({ payment, process, release, waitsFor, approval, confirmations, error }: Standing): object {
  const { id, batchId, model, status, debitAccount, debit, creditAccount, creditCurrency, creditAmount } = payment
  return {
    id,
    batchId,
    model,
    status,
    waitsFor,
    debit: { account: debitAccount, ...debit },
    credit: { account: creditAccount, amount: creditAmount, currency: creditCurrency },
    valueDate: payment.valueDate,
    cutoffAt: payment.cutoffAt,
    executeAt: payment.executeAt,
    createdAt: payment.createdAt,
    endedAt: payment.endedAt,
    process,
    release,
    approval,
    confirmations,
    error,
  }
}
