import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../../commands/index.js'
import { defineManager, type ManagerOptions } from './define.js'
import { stepCommand } from './step-command.js'

const QUEUE = 'limited__process_replies'
const HOUR = 3_600_000
const by = { actor: 'ann', reason: 'a test' }
const Do = defineCommand('limited', 'Do', { data: z.string() })
const done: string[] = []

const State = z.object({
  name: z.string(),
  needs: z.int().default(1),
  heard: z.int().default(0),
  begins: z.enum(['hold', 'wait']).default('hold'),
})

function waiter(type: string, deadlineAction?: 'tsq' | 'compensate' | 'fail') {
  const limits: Pick<ManagerOptions<typeof State, string>, 'deadline' | 'deadlineAction'> = deadlineAction
    ? { deadline: () => '1h', deadlineAction }
    : {}
  return defineManager('limited', type, {
    state: State,
    steps: ['hold', 'wait', 'use'],
    firstStep: ({ begins }) => begins,
    command: (step, { name }) => stepCommand(Do, `${step} ${name}`),
    onReply: (state, step) => (step === 'wait' ? { ...state, heard: state.heard + 1 } : state),
    nextStep(step, _reply, { heard, needs }) {
      if (step === 'use') return null
      return step === 'wait' && heard >= needs ? 'use' : 'wait'
    },
    compensation: (step, { name }) => stepCommand(Do, `undo ${step} ${name}`),
    waitOnly: (step) => step === 'wait',
    timeout: (step) => (step === 'wait' ? '2h' : '1ms'),
    ...limits,
  })
}

const Patient = waiter('Patient')
const Undone = waiter('Undone', 'compensate')
const Ended = waiter('Ended', 'fail')
const Repaired = waiter('Repaired', 'tsq')

let bus: TestBus
let holding = Promise.resolve()
let isHeld = false
beforeAll(async () => {
  bus = await openTestBus()
  for (const manager of [Patient, Undone, Ended, Repaired]) bus.hf.register(manager)
  await bus.work(
    Do,
    async (what) => {
      if (what.startsWith('hold slow')) {
        isHeld = true
        await holding
      }
      done.push(what)
    },
    // Longer than the clock is moved: a handler that is held keeps its command.
    { concurrency: 10, lease: '12h' },
  )
})
afterAll(() => bus.close())

const answer = (id: string) => bus.hf.queues.send(QUEUE, { correlation_id: id, outcome: 'SUCCESS', final: true })
const waits = (id: string) =>
  waitFor(`${id} waits`, async () => {
    const row = await bus.process(id)
    return row?.status === 'WAITING_FOR_REPLY' && row.waiting_for === 'wait' && (await bus.process(id)).due_at !== null
  })
const doneFor = (name: string) => done.filter((what) => what.endsWith(` ${name}`))

describe('M-03 a step that only waits', () => {
  test('times out into troubleshooting; the retry starts the wait again, and a reply ends it', async () => {
    const { id } = await bus.hf.start(Patient, { name: 'patient' })
    await waits(id)
    await bus.moveClock(2 * HOUR)
    await bus.rests(id, 'WAITING_FOR_TSQ')
    const record = await bus.hf.process(Patient, id).get()
    expect(record).toMatchObject({ error: { code: 'WAIT_TIMEOUT' }, waitTimeoutAt: null, dueAt: null })
    expect((await bus.hf.process(Patient, id).history()).map(({ event }) => event)).toContain('WAIT_TIMEOUT')

    await bus.hf.process(Patient, id).retry(by)
    await waits(id)
    await answer(id)
    await bus.rests(id, 'COMPLETED')
    expect(doneFor('patient')).toEqual(['hold patient', 'use patient'])
  })

  test('counts the time from when it was reached, however many replies come', async () => {
    const { id } = await bus.hf.start(Patient, { name: 'many', needs: 3 })
    await waits(id)
    const { wait_timeout_at: at } = await bus.process(id)
    await bus.moveClock(HOUR)
    await answer(id)
    await waitFor('the reply is in', async () => State.parse((await bus.process(id)).state).heard === 1)
    const drift = ((await bus.process(id)).wait_timeout_at?.getTime() ?? 0) - (at?.getTime() ?? 0)
    expect(Math.abs(drift)).toBeLessThan(60_000)
    await bus.moveClock(HOUR)
    await bus.rests(id, 'WAITING_FOR_TSQ')
  })

  test('has its time limit also as the first step', async () => {
    const { id } = await bus.hf.start(Patient, { name: 'first', begins: 'wait' })
    await waitFor('it is armed', async () => (await bus.process(id)).wait_timeout_at !== null)
    await bus.moveClock(2 * HOUR)
    await bus.rests(id, 'WAITING_FOR_TSQ')
  })
})

describe('M-01 P-15 the deadline', () => {
  test('compensates a process that waits', async () => {
    const { id } = await bus.hf.start(Undone, { name: 'undone' })
    await waits(id)
    await bus.moveClock(HOUR)
    await bus.rests(id, 'COMPENSATED')
    expect(doneFor('undone')).toEqual(['hold undone', 'undo hold undone'])
    const record = await bus.hf.process(Undone, id).get()
    expect(record.error).toMatchObject({ code: 'DEADLINE_EXCEEDED' })
    expect((await bus.hf.process(Undone, id).history()).map(({ event }) => event)).toContain('DEADLINE_EXCEEDED')
  })

  test('lets a command finish, and then undoes it too', async () => {
    let letGo = () => {}
    holding = new Promise((resolve) => {
      letGo = resolve
    })
    const { id } = await bus.hf.start(Undone, { name: 'slow' })
    await waitFor('the command is called', () => isHeld)
    await bus.moveClock(HOUR)
    expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_REPLY', waiting_for: 'hold' })
    letGo()
    await bus.rests(id, 'COMPENSATED')
    expect(doneFor('slow')).toEqual(['hold slow', 'undo hold slow'])
  })

  test('ends it where the definition says so, and the start may give another one', async () => {
    const { id } = await bus.hf.start(Ended, { name: 'ended' })
    const later = await bus.hf.start(Ended, { name: 'later' }, { deadline: '90m' })
    await waits(id)
    await waits(later.id)
    await bus.moveClock(HOUR)
    await bus.rests(id, 'FAILED')
    expect((await bus.process(later.id)).status).toBe('WAITING_FOR_REPLY')
    await bus.moveClock(HOUR)
    await bus.rests(later.id, 'FAILED')
  })

  test('otherwise goes to troubleshooting, where a retry needs a new deadline and continues at the same step', async () => {
    const { id } = await bus.hf.start(Repaired, { name: 'repaired' })
    await waits(id)
    await bus.moveClock(HOUR)
    await bus.rests(id, 'WAITING_FOR_TSQ')
    await answer(id)
    await expect(bus.hf.process(Repaired, id).retry(by)).rejects.toMatchObject({ code: 'HF_DEADLINE_EXCEEDED' })
    await bus.hf.process(Repaired, id).retry(by, { deadline: '1h' })
    await bus.rests(id, 'COMPLETED')
    expect(doneFor('repaired')).toEqual(['hold repaired', 'use repaired'])
  })
})

test('M-01 refuses invalid time limits', () => {
  const options = {
    state: State,
    firstStep: () => 'hold',
    command: (step: string) => stepCommand(Do, step),
    onReply: (state: z.output<typeof State>) => state,
    nextStep: () => null,
  }
  const wrong = (more: object) => () => defineManager('limited', 'Wrong', { ...options, ...more })
  expect(wrong({ timeout: '5m' })).toThrow(/`timeout` must be a function/)
  expect(wrong({ deadline: '5m' })).toThrow(/`deadline` must be a function/)
  expect(wrong({ deadlineAction: 'EXPLODE' })).toThrow(/deadlineAction/)
})
