import type { Payments } from '../app.js'

/** If no person uses the REST endpoints, the demo decides what has waited for this long. */
export async function answerForPeople({ pending }: Payments, afterMs: number): Promise<void> {
  const longEnough = ({ requestedAt }: { readonly requestedAt: Date }) => Date.now() - requestedAt.getTime() > afterMs
  for (const { id } of (await pending.approvals()).filter(longEnough)) {
    await pending.decideApproval(id, { decision: 'APPROVED', by: 'a colleague', comment: 'looked at it' })
  }
  for (const { id, level } of (await pending.networkResponses()).filter(longEnough)) {
    await pending.answerNetwork(id, { outcome: 'CONFIRMED', reference: `${level} by phone`, by: 'a colleague' })
  }
}
