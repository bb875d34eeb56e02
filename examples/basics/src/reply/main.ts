import { randomUUID } from 'node:crypto'
import { startEmbedded } from '@holdfast/embedded'
import { BusinessError, defineCommand, holdfast } from 'holdfast'
import { z } from 'zod'

const Charge = defineCommand('cards', 'Charge', {
  data: z.object({ card: z.string(), cents: z.int().positive() }),
  result: z.object({ receipt: z.string() }),
})

interface Reply {
  readonly command_id: string
  readonly correlation_id: string
  readonly outcome: 'SUCCESS' | 'FAILED' | 'CANCELLED'
  readonly final: boolean
  readonly result?: { readonly receipt: string }
  readonly error_type?: 'TRANSIENT' | 'PERMANENT' | 'BUSINESS_RULE'
  readonly error_code?: string
  readonly error_message?: string
  readonly effect?: 'unknown'
}

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle(Charge, async ({ card, cents }) => {
  if (cents > 100_000) throw new BusinessError('over the limit of the card', { code: 'OVER_LIMIT' })
  return { receipt: `${card}: ${cents} cents` }
})
await hf.run()

await hf.queues.create('orders__replies')
for (const cents of [2_500, 250_000]) {
  const correlationId = randomUUID()
  await hf.send(Charge, { card: 'CARD-1', cents }, { replyTo: 'orders__replies', correlationId })

  const [reply] = await hf.queues.readWithPoll<Reply>('orders__replies', { wait: '10s' })
  if (!reply) throw new Error('no reply within 10 s')
  const { outcome, final, result, error_type, error_code, error_message, correlation_id } = reply.message
  console.log(
    `${outcome}, ${final ? 'final' : 'provisional'}, ${correlation_id === correlationId ? 'ours' : 'not ours'}`,
  )
  console.log(result ? `  receipt ${result.receipt}` : `  ${error_type} ${error_code}: ${error_message}`)
  await hf.queues.delete('orders__replies', reply.messageId)
}

await hf.close()
await database.stop()
