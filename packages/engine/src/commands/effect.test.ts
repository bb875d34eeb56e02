import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import { type CommandDefinition, defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'test' }
const reset = () => new Error('read ECONNRESET')
const declined = () => new BusinessError('declined', { code: 'DECLINED' })
const noAccount = () => new PermanentError('no such account', { code: 'NO_ACCOUNT' })

/** A handler that throws these one after the other, and then returns. */
async function throwing(Do: CommandDefinition, errors: (() => Error)[], inquire?: () => 'notDone' | 'unknown') {
  const left = [...errors]
  bus.hf.handle(
    Do,
    () => {
      const next = left.shift()
      if (next) throw next()
      return 'done'
    },
    inquire ? { inquire } : {},
  )
  await bus.hf.run({ domains: [Do.domain], poll: '20ms' })
}

async function sendTo(Do: CommandDefinition) {
  const replyTo = `${Do.domain}__replies`
  await bus.hf.queues.create(replyTo)
  return bus.hf.send(Do, null as never, { replyTo })
}

const inTroubleshooting = ({ domain }: CommandDefinition) =>
  waitFor('it is in troubleshooting', async () => (await bus.hf.trouble.count({ model: 'commands', domain })) === 1)

/** What the final reply says of the effect. */
async function finalReply({ domain }: CommandDefinition) {
  const reply = await waitFor('its final reply has come', async () => {
    const rows = await bus.sql<{ message: Record<string, unknown> }>(
      `select message from pgmq."q_${domain}__replies" where (message ->> 'final')::boolean`,
    )
    return rows[0]?.message
  })
  return [reply['outcome'], reply['effect']]
}

describe('K-19 the final reply says whether the command may have had its effect', () => {
  const twice = { retry: { maxAttempts: 2, delays: ['1ms'] } } as const

  test('a refusal after a call of unknown outcome: it may', async () => {
    const Do = defineCommand('effect_refused_later', 'Do', twice)
    await throwing(Do, [reset, declined])
    await sendTo(Do)
    expect(await finalReply(Do)).toEqual(['FAILED', 'unknown'])
  })

  test('a refusal after a call whose worker died: it may', async () => {
    const Do = defineCommand('effect_died', 'Do', twice)
    await sendTo(Do)
    // As a worker leaves it that has received the command and is gone.
    await bus.sql('update pgmq.q_effect_died__commands set read_ct = 1')
    await throwing(Do, [declined])
    expect(await finalReply(Do)).toEqual(['FAILED', 'unknown'])
  })

  test('refused at once: it has not', async () => {
    const Do = defineCommand('effect_refused', 'Do', twice)
    await throwing(Do, [declined])
    await sendTo(Do)
    expect(await finalReply(Do)).toEqual(['FAILED', undefined])
  })

  test.each([
    ['its only call was refused: it has not', 'only', [noAccount], undefined],
    ['its last call was refused, and the one before was not: it may', 'later', [reset, noAccount], 'unknown'],
    ['its calls were not answered: it may', 'never', [reset, reset], 'unknown'],
  ] as const)('cancelled by an operator; %s', async (_, name, errors, effect) => {
    const Do = defineCommand(`effect_cancelled_${name}`, 'Do', twice)
    await throwing(Do, [...errors])
    const command = await sendTo(Do)
    await inTroubleshooting(Do)
    await command.cancel(by)
    expect(await finalReply(Do)).toEqual(['CANCELLED', effect])
  })

  test('cancelled by an operator; its result could not be stored: it may', async () => {
    const Do = defineCommand('effect_bad_result', 'Do', { result: z.number() })
    await throwing(Do, [])
    const command = await sendTo(Do)
    await inTroubleshooting(Do)
    await command.cancel(by)
    expect(await finalReply(Do)).toEqual(['CANCELLED', 'unknown'])
  })

  test('refused after the retry of an operator, after an earlier call of unknown outcome: it may', async () => {
    const Do = defineCommand('effect_retried', 'Do', { retry: { maxAttempts: 1 } })
    await throwing(Do, [reset, declined])
    const command = await sendTo(Do)
    await inTroubleshooting(Do)
    await command.retry(by)
    expect(await finalReply(Do)).toEqual(['FAILED', 'unknown'])
  })

  test('at most once: a refusal after `inquire` has said that nothing was done: it has not', async () => {
    const Do = defineCommand('effect_inquired', 'Do', { ...twice, atMostOnce: true })
    await throwing(Do, [reset, declined], () => 'notDone')
    await sendTo(Do)
    expect(await finalReply(Do)).toEqual(['FAILED', undefined])
  })

  test('at most once: a refusal after a person has said that nothing was done: it has not', async () => {
    const Do = defineCommand('effect_answered', 'Do', { atMostOnce: true })
    await throwing(Do, [reset, declined])
    const command = await sendTo(Do)
    await inTroubleshooting(Do)
    await command.retry(by, { notDone: true })
    expect(await finalReply(Do)).toEqual(['FAILED', undefined])
  })
})
