import { gate, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import { type CommandDefinition, defineCommand } from './define.js'

// Handlers that must not be called twice (K-19, K-20). The bank pays, and then the connection may break.

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '50ms' })
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'asked the bank' }
const settle = async (command: CommandDefinition, id: string) =>
  waitFor('it has ended or waits for a person', async () => {
    const found = await bus.hf.command(command, id).get()
    return ['PENDING', 'IN_PROGRESS'].includes(found.status) ? undefined : found
  })
const run = (domain: string) => bus.hf.run({ domains: [domain], poll: '20ms', retry: ['1ms'] })
const reset = () => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })

describe('K-20 a call that threw', () => {
  test('K-20 without `inquire` it waits for an operator, who must say notDone before it is called again', async () => {
    const Pay = defineCommand('once_alone', 'Pay', { atMostOnce: true })
    let calls = 0
    bus.hf.handle(Pay, () => {
      calls += 1
      if (calls === 1) throw reset()
      return 'paid'
    })
    await run('once_alone')
    const { id } = await bus.hf.send(Pay, null)
    const { status, error } = await settle(Pay, id)
    expect([status, error?.code]).toEqual(['IN_TROUBLESHOOTING_QUEUE', 'OUTCOME_UNKNOWN'])
    expect(error?.message).toContain('ECONNRESET')

    await expect(bus.hf.command(Pay, id).retry(by)).rejects.toMatchObject({ code: 'HF_CALL_OUTCOME_UNKNOWN' })
    await expect(bus.hf.command(Pay, id).retry(by, { data: 7 })).rejects.toMatchObject({
      code: 'HF_CALL_OUTCOME_UNKNOWN',
    })
    expect(await bus.hf.trouble.retry([id], by)).toMatchObject([{ id, code: 'HF_CALL_OUTCOME_UNKNOWN' }])
    expect(calls).toBe(1)

    await bus.hf.command(Pay, id).retry(by, { notDone: true })
    expect(await bus.hf.command(Pay, id).result()).toBe('paid')
    expect(calls).toBe(2)
    const audit = await bus.hf.command(Pay, id).history()
    expect(audit.find(({ event }) => event === 'OPERATOR_RETRY')).toMatchObject({
      actor: 'ann',
      after: { notDone: true },
    })
  })

  test('K-20 a person can say done, with a result that fits its schema', async () => {
    const Pay = defineCommand('once_done', 'Pay', { atMostOnce: true, result: z.object({ reference: z.string() }) })
    let calls = 0
    bus.hf.handle(Pay, () => {
      calls += 1
      throw reset()
    })
    await run('once_done')
    const { id } = await bus.hf.send(Pay, null)
    await settle(Pay, id)
    for (const target of [Pay, { domain: 'once_done', type: 'Pay' }]) {
      const complete = bus.hf.command(target, id).complete(by, { reference: 7 as never })
      await expect(complete).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
    }
    await bus.hf.command(Pay, id).complete(by, { reference: 'r7' })
    expect(await bus.hf.command(Pay, id).result()).toEqual({ reference: 'r7' })
    expect(calls).toBe(1)
  })

  test.each([
    ['a reset connection', () => reset()],
    ['an error that nobody knows', () => new Error('502 Bad Gateway')],
    ['a timeout of the client', () => new DOMException('time is up', 'TimeoutError')],
  ])(
    'K-20 with `inquire`, %s is inquired about: done completes it, and it is never called again',
    async (what, error) => {
      const Pay = defineCommand(`once_${what.replaceAll(' ', '_')}`.slice(0, 30), 'Pay', { atMostOnce: true })
      const paid = new Map<string, number>()
      let asked = 0
      bus.hf.handle(
        Pay,
        (_, { idempotencyKey }) => {
          paid.set(idempotencyKey, (paid.get(idempotencyKey) ?? 0) + 1)
          throw error()
        },
        {
          inquire: (_, { idempotencyKey }) => {
            asked += 1
            return paid.has(idempotencyKey) ? { done: 'paid' } : 'notDone'
          },
        },
      )
      await run(Pay.domain)
      const { id } = await bus.hf.send(Pay, null)
      expect(await bus.hf.command(Pay, id).result()).toBe('paid')
      expect([paid.get(id), asked]).toEqual([1, 1])
    },
  )

  test('K-20 what `inquire` calls notDone is called again, and inquired about before each further call', async () => {
    const Pay = defineCommand('once_again', 'Pay', { atMostOnce: true, retry: { maxAttempts: 3 } })
    const happened: string[] = []
    bus.hf.handle(
      Pay,
      (_, { attempt }) => {
        happened.push(`call ${attempt}`)
        throw reset()
      },
      {
        inquire: () => {
          happened.push('inquire')
          return 'notDone'
        },
      },
    )
    await run('once_again')
    const { id } = await bus.hf.send(Pay, null)
    const { status, error, attempts } = await settle(Pay, id)
    expect([status, error?.code, attempts]).toEqual(['IN_TROUBLESHOOTING_QUEUE', 'INTERNAL_ERROR', 3])
    const again = ['inquire', 'inquire']
    expect(happened).toEqual(['call 1', ...again, 'call 2', ...again, 'call 3', 'inquire'])

    // An operator's retry is inquired about like any other.
    happened.length = 0
    await bus.hf.command(Pay, id).retry(by)
    await settle(Pay, id)
    expect(happened.slice(0, 2)).toEqual(['inquire', 'call 1'])
  })

  test.each<[string, () => unknown]>([
    ['does not know', () => 'unknown'],
    ['answers nonsense', () => ({ finished: true })],
    ['throws', () => Promise.reject(new Error('the bank is closed'))],
  ])('K-20 an `inquire` that %s leaves it to a person; their retry inquires first', async (what, answer) => {
    const Pay = defineCommand(`once_${what.replaceAll(' ', '_')}`, 'Pay', {
      atMostOnce: true,
      retry: { maxAttempts: 5 },
    })
    let calls = 0
    let known = false
    bus.hf.handle(
      Pay,
      () => {
        calls += 1
        throw reset()
      },
      { inquire: () => (known ? { done: 'paid' } : (answer() as 'unknown')) },
    )
    await run(Pay.domain)
    const { id } = await bus.hf.send(Pay, null)
    const { status, error } = await settle(Pay, id)
    expect([status, error?.code]).toEqual(['IN_TROUBLESHOOTING_QUEUE', 'OUTCOME_UNKNOWN'])
    await bus.hf.command(Pay, id).retry(by)
    expect((await settle(Pay, id)).error?.code).toBe('OUTCOME_UNKNOWN')
    known = true
    await bus.hf.command(Pay, id).retry(by)
    expect(await bus.hf.command(Pay, id).result()).toBe('paid')
    expect(calls).toBe(1)
  })

  test('K-19 a refusal is known to have had no effect: no inquiry is made, and a retry calls it', async () => {
    const Pay = defineCommand('once_refused', 'Pay', { atMostOnce: true, data: z.enum(['business', 'permanent']) })
    let asked = 0
    const calls: string[] = []
    bus.hf.handle(
      Pay,
      (kind) => {
        calls.push(kind)
        if (calls.length > 2) return 'paid'
        throw kind === 'business' ? new BusinessError('declined') : new PermanentError('no such account')
      },
      {
        inquire: () => {
          asked += 1
          return 'unknown'
        },
      },
    )
    await run('once_refused')
    const { id: declined } = await bus.hf.send(Pay, 'business')
    expect((await settle(Pay, declined)).status).toBe('FAILED')
    const { id: wrong } = await bus.hf.send(Pay, 'permanent')
    expect((await settle(Pay, wrong)).error?.code).toBe('PERMANENT_ERROR')
    await bus.hf.command(Pay, wrong).retry(by)
    expect(await bus.hf.command(Pay, wrong).result()).toBe('paid')
    expect([calls.length, asked]).toEqual([3, 0])
  })

  test('K-20 a call whose result cannot be stored was made: a retry inquires first', async () => {
    const Pay = defineCommand('once_bad_result', 'Pay', { atMostOnce: true, result: z.string() })
    let calls = 0
    bus.hf.handle(
      Pay,
      () => {
        calls += 1
        return 7 as unknown as string
      },
      { inquire: () => ({ done: 'paid' }) },
    )
    await run('once_bad_result')
    const { id } = await bus.hf.send(Pay, null)
    expect((await settle(Pay, id)).error?.code).toBe('INVALID_RESULT')
    await bus.hf.command(Pay, id).retry(by)
    expect(await bus.hf.command(Pay, id).result()).toBe('paid')
    expect(calls).toBe(1)
  })
})

describe('K-20 a call that may or may not have begun', () => {
  /** A worker that received it, and died before it said what became of it. */
  const die = async (domain: string, times = 1) => {
    for (let time = 0; time < times; time += 1) {
      const [row] = await bus.sql<{ items: unknown[] }>(
        `select items from holdfast.receive_commands($1, $2, '{Pay}', '{null}', 'dead', 1, 0, false, 1000)`,
        [`${domain}__commands`, domain],
      )
      expect(row?.items).toHaveLength(1)
      // Nothing else ran in that worker: the command is to blame for its death.
      await bus.sql(
        `insert into holdfast.lost_claim (source, id, epoch, state, lost_alone, at)
         select 'commands:' || $1, msg_id::text, read_ct, 'alone', read_ct - 1, holdfast.now() from pgmq.q_${domain}__commands
         on conflict (source, id) do update
         set epoch = excluded.epoch, state = excluded.state, lost_alone = excluded.lost_alone`,
        [`${domain}__commands`],
      )
    }
  }

  test.each<[string, 'done' | 'notDone' | 'unknown' | undefined, number, string]>([
    ['is inquired about, and done completes it', 'done', 0, 'COMPLETED'],
    ['is called when it was not done', 'notDone', 1, 'COMPLETED'],
    ['waits for a person when that is unknown', 'unknown', 0, 'OUTCOME_UNKNOWN'],
    ['waits for a person when nobody can be asked', undefined, 0, 'OUTCOME_UNKNOWN'],
  ])('K-20 its worker died: it %s', async (_, answer, expected, end) => {
    const Pay = defineCommand(`dead_${answer ?? 'alone'}`.toLowerCase(), 'Pay', { atMostOnce: true })
    const { id } = await bus.hf.send(Pay, null)
    await die(Pay.domain)
    let calls = 0
    const inquire = () => (answer === 'done' ? { done: 'paid' } : (answer ?? 'unknown'))
    const handler = () => {
      calls += 1
      return 'paid'
    }
    bus.hf.handle(Pay, handler, answer === undefined ? {} : { inquire })
    await run(Pay.domain)
    const { status, error } = await settle(Pay, id)
    expect(error?.code ?? status).toBe(end)
    expect(calls).toBe(expected)
  })

  test.each([
    ['done', 'COMPLETED'],
    ['notDone', 'ATTEMPTS_EXHAUSTED_BY_CRASH'],
  ])('C-16 K-20 its worker died as often as it has attempts, and it is %s: %s', async (answer, end) => {
    const Pay = defineCommand(`dead_always_${answer}`.toLowerCase(), 'Pay', {
      atMostOnce: true,
      retry: { maxAttempts: 2 },
    })
    const { id } = await bus.hf.send(Pay, null)
    await die(Pay.domain, 2)
    let calls = 0
    const handler = () => {
      calls += 1
    }
    bus.hf.handle(Pay, handler, {
      inquire: () => (answer === 'done' ? { done: undefined } : 'notDone'),
    })
    await run(Pay.domain)
    const { status, error } = await settle(Pay, id)
    expect(error?.code ?? status).toBe(end)
    expect(calls).toBe(0)
  })

  test('K-20 a worker that stops leaves the call that ended upon its signal to an inquiry, not to an operator', async () => {
    const Pay = defineCommand('once_stopped', 'Pay', { atMostOnce: true })
    const begun = gate()
    let calls = 0
    let known = false
    bus.hf.handle(
      Pay,
      async (_, { signal }) => {
        calls += 1
        begun.open()
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason))
        })
      },
      { inquire: () => (known ? { done: 'paid' } : 'unknown') },
    )
    const first = await bus.hf.run({ domains: ['once_stopped'], poll: '20ms', lease: '2s' })
    const { id } = await bus.hf.send(Pay, null)
    await begun.passed
    await first.stop(0)
    known = true
    await run('once_stopped')
    expect(await bus.hf.command(Pay, id).result()).toBe('paid')
    expect(calls).toBe(1)
  })
})

test('K-20 a worker that stops while it inquires leaves the inquiry to the next worker, not to an operator', async () => {
  const Pay = defineCommand('asked_and_stopped', 'Pay', { atMostOnce: true })
  const patient = await openTestBus({ connectionString: bus.connectionString, inquireFor: '10m' })
  let asked = 0
  let known = false
  const inquire = () => {
    asked += 1
    return known ? { done: 'paid' } : 'unknown'
  }
  const pay = () => Promise.reject(new Error('socket hang up'))
  patient.hf.handle(Pay, pay, { inquire })
  const first = await patient.hf.run({ domains: [Pay.domain], poll: '20ms', lease: '2s' })
  const { id } = await bus.hf.send(Pay, null)
  await waitFor('it was asked', () => asked === 1)
  await first.stop(0)
  known = true
  await patient.hf.run({ domains: [Pay.domain], poll: '20ms', lease: '2s' })
  expect(await bus.hf.command(Pay, id).result()).toBe('paid')
  await patient.close()
})

describe('K-19 a handler whose time is over', () => {
  test('K-19 the next attempt does not run beside a handler that ends late', async () => {
    const Slow = defineCommand('late', 'Slow', { timeout: '20ms', retry: { maxAttempts: 2 } })
    const patient = await openTestBus({ connectionString: bus.connectionString, abortGrace: '20s' })
    const late = gate()
    const happened: string[] = []
    patient.hf.handle(Slow, async (_, { attempt, signal }) => {
      happened.push(`begin ${attempt}`)
      if (attempt === 1) {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        happened.push('told to stop')
        await late.passed
      }
      happened.push(`end ${attempt}`)
    })
    const Quick = defineCommand('late', 'Quick')
    patient.hf.handle(Quick, () => null)
    await patient.hf.run({ domains: ['late'], poll: '10ms', retry: ['1ms'] })
    const { id } = await patient.hf.send(Slow, null)
    await waitFor('its time is over', () => happened.length === 2)
    // The worker claims on, and does not claim this one.
    for (let n = 0; n < 5; n += 1) await (await patient.hf.send(Quick, n)).result()
    expect(happened).toEqual(['begin 1', 'told to stop'])
    late.open()
    await patient.hf.command(Slow, id).result()
    expect(happened).toEqual(['begin 1', 'told to stop', 'end 1', 'begin 2', 'end 2'])
    await patient.close()
  })

  test('K-20 one that goes on beyond the grace is not inquired about: it waits for a person', async () => {
    const Pay = defineCommand('once_stuck', 'Pay', { atMostOnce: true, timeout: '20ms' })
    const stuck = gate()
    let asked = 0
    bus.hf.handle(Pay, () => stuck.passed, {
      inquire: () => {
        asked += 1
        return 'notDone'
      },
    })
    await run('once_stuck')
    const { error } = await settle(Pay, (await bus.hf.send(Pay, null)).id)
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', message: expect.stringContaining('still runs') })
    expect(asked).toBe(0)
    stuck.open()
  })

  test('K-20 one that ended upon its signal is inquired about', async () => {
    const Pay = defineCommand('once_timeout', 'Pay', { atMostOnce: true, timeout: '20ms' })
    let calls = 0
    bus.hf.handle(
      Pay,
      (_, { signal }) => {
        calls += 1
        return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
      { inquire: () => ({ done: 'paid' }) },
    )
    await run('once_timeout')
    expect(await (await bus.hf.send(Pay, null)).result()).toBe('paid')
    expect(calls).toBe(1)
  })
})

test('K-13 an `inquire` that would never be called, or is not a function, is refused', () => {
  const Plain = defineCommand('plain', 'Plain')
  expect(() => bus.hf.handle(Plain, () => null, { inquire: () => 'notDone' })).toThrow(
    expect.objectContaining({ code: 'HF_INVALID_OPTION', message: expect.stringContaining('atMostOnce') }),
  )
  const Once = defineCommand('plain', 'Once', { atMostOnce: true })
  expect(() => bus.hf.handle(Once, () => null, { inquire: 'bank' as never })).toThrow(
    expect.objectContaining({ code: 'HF_INVALID_OPTION', message: expect.stringContaining('function') }),
  )
  expect(() => bus.hf.handle(Once, () => null, { inquiry: () => 'notDone' } as never)).toThrow(
    expect.objectContaining({ code: 'HF_UNKNOWN_OPTION' }),
  )
})

test('K-26 an `inquire` that ends its workers is not repeated for ever: the command waits for an operator', async () => {
  const Pay = defineCommand('dies_asking', 'Pay', { atMostOnce: true, retry: { maxAttempts: 2 } })
  const { id } = await bus.hf.send(Pay, null)
  let asked = 0
  const inquire = () => {
    asked += 1
    return 'notDone' as const
  }
  await bus.sql(
    `select holdfast.receive_commands('dies_asking__commands', 'dies_asking', '{Pay}', '{null}', 'dead', 1, 0, false, 1000)`,
  )
  await bus.sql(
    `insert into holdfast.lost_claim (source, id, epoch, state, lost_alone, at)
     select 'commands:dies_asking__commands', msg_id::text, read_ct, 'alone', 2, holdfast.now() from pgmq.q_dies_asking__commands`,
  )
  bus.hf.handle(Pay, () => 'paid', { inquire })
  await run(Pay.domain)
  const { error } = await settle(Pay, id)
  expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', message: expect.stringContaining('its worker died 3 times') })
  expect(asked).toBe(0)
})
