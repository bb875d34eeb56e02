import { z } from 'zod'
import type { Payments } from '../app.js'
import { parseInput } from '../domain/order.js'
import type { Resolved } from '../network/pending.js'
import { notFound, Problem } from './problem.js'
import type { Answer, Request, Routes } from './router.js'

const by = z.string({ error: 'must say who decides' }).min(1, 'must say who decides').max(200)
const comment = z.string().max(2_000).optional()
const Decision = z.strictObject({ by, comment })
const text = z.string().min(1).max(500)
const NetworkDecision = z.discriminatedUnion('outcome', [
  z.strictObject({ outcome: z.literal('CONFIRMED'), reference: text, by, comment }),
  z.strictObject({ outcome: z.literal('REJECTED'), code: text, message: text, by, comment }),
])

/** What waits for people: approvals, and levels of the network that a person has to respond to. */
export function peopleRoutes({ pending }: Payments): Routes {
  const decide =
    (decision: 'APPROVED' | 'DECLINED') =>
    async ({ params: { id = '' }, body }: Request) => {
      const given = parseInput(Decision, await body())
      const who = { by: given.by, ...(given.comment === undefined ? {} : { comment: given.comment }) }
      return told('approval', id, await resolve(id, () => pending.decideApproval(id, { decision, ...who })), decision)
    }

  return {
    'GET /approvals': async () => ({ status: 200, body: await pending.approvals() }),
    'POST /approvals/:id/approve': decide('APPROVED'),
    'POST /approvals/:id/decline': decide('DECLINED'),
    'GET /network-responses': async () => ({ status: 200, body: await pending.networkResponses() }),
    'POST /network-responses/:id/answer': async ({ params: { id = '' }, body }) => {
      const { comment: said, ...given } = parseInput(NetworkDecision, await body())
      const answer = { ...given, ...(said === undefined ? {} : { comment: said }) }
      const resolved = await resolve(id, () => pending.answerNetwork(id, answer))
      return told('network response', id, resolved, answer.outcome)
    },
  }
}

const resolve = async (id: string, work: () => Promise<Resolved>): Promise<Resolved> =>
  z.uuid().safeParse(id).success ? work() : 'unknown'

function told(what: string, id: string, resolved: Resolved, status: string): Answer {
  if (resolved === 'unknown') throw notFound(`${what} ${id}`)
  if (resolved === 'resolved') {
    throw new Problem(409, 'Conflict', `The ${what} ${id} has been answered already.`, { code: 'ANSWERED_ALREADY' })
  }
  return { status: 200, body: { id, status } }
}
