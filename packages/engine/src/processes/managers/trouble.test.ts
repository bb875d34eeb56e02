import { gate, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../../commands/index.js'
import { BusinessError, PermanentError } from '../../kernel/failure/failure-errors.js'
import { defineManager } from './define.js'
import { stepCommand } from './step-command.js'

const by = { actor: 'ann', reason: 'a test' }
const Do = defineCommand('repairs', 'Do', { data: z.object({ of: z.string(), what: z.string(), mode: z.string() }) })
/** Nobody has a handler for it. */
const Late = defineCommand('repairs_elsewhere', 'Late')
const Slow = defineCommand('repairs_slowly', 'Slow')

/** What the handlers of the manager do for now; tests repair them as a deploy would. */
const faults = new Set<string>()
/** Whose commands succeed from now on. */
const repaired = new Set<string>()
const done: string[] = []
/** What the slow commands wait for, by their ids. */
const answers = new Map<string, ReturnType<typeof gate>>()

const Repaired = defineManager('repairs', 'Repaired', {
  state: z.object({
    of: z.string(),
    mode: z.string().default(''),
    undo: z.string().default(''),
    replies: z.int().default(0),
  }),
  firstStep: () => 'first',
  command(step, { of, mode }) {
    if (step === 'late') return stepCommand(Late, null)
    if (step === 'slow') return stepCommand(Slow, null)
    if (faults.has(`${of} command ${step}`)) throw new Error('no idea what to send')
    if (faults.has(`${of} bad data ${step}`)) return stepCommand(Do, { of, what: step, mode: 5 as never })
    if (step !== 'first' && step !== 'second') return undefined as never
    const once = mode.endsWith('lost') ? { retry: { maxAttempts: 1 } } : {}
    return stepCommand(Do, { of, what: step, mode: mode.startsWith(step) ? mode : '' }, once)
  },
  onReply(state, step) {
    if (faults.has(`${state.of} onReply ${step}`)) throw new Error('onReply does not know what to do')
    if (faults.has(`${state.of} async ${step}`)) return Promise.resolve(state) as never
    if (faults.has(`${state.of} nothing ${step}`)) return undefined as never
    if (faults.has(`${state.of} unencodable ${step}`)) return { ...state, of: Symbol('x') as never }
    return { ...state, replies: state.replies + 1 }
  },
  nextStep(step, _reply, { of }) {
    if (faults.has(`${of} nextStep ${step}`)) throw new Error('nextStep does not know where to go')
    if (faults.has(`${of} unknown ${step}`)) return 'nowhere'
    if (of.startsWith('late')) return step === 'first' ? 'late' : null
    if (of.startsWith('slow')) return step === 'first' ? 'slow' : null
    return step === 'first' ? 'second' : null
  },
  compensation(step, { of, undo }) {
    if (faults.has(`${of} compensation ${step}`)) throw new Error('no idea how to undo')
    return stepCommand(Do, { of, what: `undo ${step}`, mode: undo })
  },
})

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  bus.hf.register(Repaired)
  await bus.work(
    Do,
    ({ of, what, mode }) => {
      done.push(`${of}: ${what}`)
      if (repaired.has(of)) return
      const [fault] = mode.split(' ').slice(-1)
      if (faults.has(`${of} ${what}`) || fault === 'refused') throw new BusinessError('no', { code: 'REFUSED' })
      if (fault === 'lost') throw new Error('read ECONNRESET')
      if (fault === 'broken') throw new PermanentError('no route', { code: 'NO_ROUTE' })
    },
    { concurrency: 10 },
  )
  await bus.work(Slow, async (_, { commandId }) => {
    const answer = gate()
    answers.set(commandId, answer)
    await answer.passed
  })
})
afterAll(() => bus.close())

const doneFor = (of: string) =>
  done.filter((line) => line.startsWith(`${of}: `)).map((line) => line.slice(of.length + 2))
const troubles = async (id: string) => bus.sql('select error_code from holdfast.process_trouble where id = $1', [id])

test.each([
  ['onReply first', 'HANDLER_FAILED', 'onReply does not know'],
  ['nextStep first', 'HANDLER_FAILED', 'nextStep does not know'],
  ['command second', 'HANDLER_FAILED', 'no idea what to send'],
  ['bad data second', 'HANDLER_FAILED', 'mode'],
  ['unencodable first', 'HANDLER_FAILED', 'state.of'],
  ['unknown first', 'UNKNOWN_STEP', 'nowhere'],
  ['async first', 'ASYNC_HANDLER', 'must not be async'],
  ['nothing first', 'NO_STATE', 'returns the new state'],
])(
  'M-03 %s: the process waits for a person with %s, keeps its reply, and goes on after a retry',
  async (fault, code, why) => {
    const of = fault
    faults.add(`${of} ${fault}`)
    const { id } = await bus.hf.start(Repaired, { of })
    const stuck = await bus.rests(id, 'WAITING_FOR_TSQ')
    expect(stuck).toMatchObject({ error_code: code, state: { replies: 0 } })
    expect(stuck.error_message).toContain(why)
    expect(await troubles(id)).toEqual([{ error_code: code }])
    expect(await bus.history(id)).toEqual(['COMMAND first STARTED', 'COMMAND first WAITING_RETRY'])

    faults.delete(`${of} ${fault}`)
    await bus.retry(id)
    expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ error_code: null, state: { replies: 2 } })
    expect(doneFor(of)).toEqual(['first', 'second'])
  },
)

test('M-03 a retry that meets the same fault waits for a person again', async () => {
  faults.add('again onReply first')
  const { id } = await bus.hf.start(Repaired, { of: 'again' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  await bus.retry(id)
  await waitFor('it is back', async () => (await bus.history(id)).length === 4)
  expect(await bus.rests(id, 'WAITING_FOR_TSQ')).toMatchObject({ error_code: 'HANDLER_FAILED' })
  expect(doneFor('again')).toEqual(['first'])
})

test('M-03 a process whose handlers throw does not disturb others', async () => {
  faults.add('bad 3 onReply first')
  const started = await Promise.all([1, 2, 3, 4, 5].map((n) => bus.hf.start(Repaired, { of: `bad ${n}` })))
  for (const [place, { id }] of started.entries()) {
    await bus.rests(id, place === 2 ? 'WAITING_FOR_TSQ' : 'COMPLETED')
  }
})

test('M-04 a compensation in troubleshooting: the process waits, and is undone to the end after the repair', async () => {
  const { id } = await bus.hf.start(Repaired, { of: 'stuck', mode: 'second refused', undo: 'broken' })
  expect(await bus.rests(id, 'WAITING_FOR_TSQ')).toMatchObject({
    error_code: 'COMMAND_IN_TROUBLESHOOTING',
    waiting_for: 'first',
  })
  const [command] = (await bus.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
  await bus.hf.command(Do, command?.id ?? '').complete(by)
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({ error_code: 'REFUSED' })
  expect(await troubles(id)).toEqual([])
})

test('M-04 a refused compensation needs a person; a retry sends it again, as another command', async () => {
  faults.add('refusing undo first')
  const { id } = await bus.hf.start(Repaired, { of: 'refusing', mode: 'second refused' })
  const stuck = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(stuck).toMatchObject({ error_code: 'COMPENSATION_FAILED' })
  expect(stuck.error_message).toContain('REFUSED: no')
  faults.delete('refusing undo first')
  await bus.retry(id)
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({ error_code: 'REFUSED' })
  expect(doneFor('refusing')).toEqual(['first', 'second', 'undo first', 'undo first'])
  const sent = (await bus.hf.commands.list({ correlationId: id })).items
  expect(new Set(sent.map(({ id }) => id)).size).toBe(4)
})

test('M-04 a compensation handler that throws: nothing is undone until a retry, then everything', async () => {
  faults.add('clueless compensation first')
  const { id } = await bus.hf.start(Repaired, { of: 'clueless', mode: 'second refused' })
  expect(await bus.rests(id, 'WAITING_FOR_TSQ')).toMatchObject({ error_code: 'HANDLER_FAILED' })
  faults.delete('clueless compensation first')
  await bus.retry(id)
  await bus.rests(id, 'COMPENSATED')
  expect(doneFor('clueless')).toEqual(['first', 'second', 'undo first'])
})

test('M-03 while its command is in troubleshooting a retry is refused, and it waits for the command', async () => {
  const { id } = await bus.hf.start(Repaired, { of: 'patient', mode: 'second broken' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  await expect(bus.retry(id)).rejects.toMatchObject({ code: 'HF_CANNOT_RETRY' })
  expect(await bus.rests(id, 'WAITING_FOR_TSQ')).toMatchObject({
    error_code: 'COMMAND_IN_TROUBLESHOOTING',
    due_at: null,
  })
  expect(await troubles(id)).toHaveLength(1)
  const [command] = (await bus.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
  await bus.hf.command(Do, command?.id ?? '').complete(by)
  await bus.rests(id, 'COMPLETED')
})

/** A process whose second command is under way until the answer is given. */
async function underWay(of: string) {
  const { id } = await bus.hf.start(Repaired, { of })
  const answer = await waitFor('its slow command is under way', async () => {
    const [command] = (await bus.hf.commands.list({ correlationId: id, type: 'Slow' })).items
    return answers.get(command?.id ?? '')
  })
  return { id, answer: () => answer.open() }
}

test('P-16 cancelled without compensation it ends at once, and the late reply is in its state', async () => {
  const { id, answer } = await underWay('slow plain')
  await bus.cancel(id, 'PLAIN')
  expect(await bus.rests(id, 'CANCELLED')).toMatchObject({ state: { replies: 1 } })
  answer()
  await waitFor('the late reply is audited', async () => (await bus.events(id)).includes('LATE_ASYNC_RESPONSE'))
  expect(await bus.process(id)).toMatchObject({ status: 'CANCELLED', state: { replies: 2 } })
  expect(doneFor('slow plain')).toEqual(['first'])
})

test('P-16 cancelled with compensation it waits for the command under way, then undoes everything', async () => {
  const { id, answer } = await underWay('slow undone')
  await bus.cancel(id, 'COMPENSATE')
  await waitFor('the worker has looked', async () => (await bus.process(id)).due_at === null)
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_REPLY' })
  answer()
  await bus.rests(id, 'CANCELLED')
  expect(doneFor('slow undone')).toEqual(['first', 'undo slow', 'undo first'])
})

test.each(['COMPENSATE', 'PLAIN'] as const)(
  'K-19 P-16 cancelled (%s), it cancels the command that no worker has received, and does not wait for it',
  async (mode) => {
    const of = `late ${mode}`
    const { id } = await bus.hf.start(Repaired, { of })
    await waitFor('it waits for the late one', async () => (await bus.process(id)).waiting_for === 'late')
    await bus.cancel(id, mode)
    await bus.rests(id, 'CANCELLED')
    const [command] = (await bus.hf.commands.list({ correlationId: id, type: 'Late' })).items
    expect(command).toMatchObject({ status: 'CANCELLED' })
    expect(await bus.events(command?.id ?? '')).toEqual(['SENT', 'OPERATOR_CANCEL'])
    expect(doneFor(of)).toEqual(mode === 'COMPENSATE' ? ['first', 'undo first'] : ['first'])
  },
)

test('K-19 cancelled while its command waits for an operator because it was refused, it cancels that command and undoes the rest', async () => {
  const { id } = await bus.hf.start(Repaired, { of: 'refused for good', mode: 'second broken' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  await bus.cancel(id, 'COMPENSATE')
  await bus.rests(id, 'CANCELLED')
  expect(doneFor('refused for good')).toEqual(['first', 'second', 'undo first'])
  expect(await bus.hf.trouble.count({ model: 'commands', domain: 'repairs' })).toBe(0)
})

test.each(['cancel', 'retry', 'complete'] as const)(
  'K-19 P-16 cancelled while its command is in troubleshooting with an unknown outcome, it waits for the operator’s %s of the command, and undoes it once',
  async (verb) => {
    const of = `unknown, then ${verb}`
    const { id } = await bus.hf.start(Repaired, { of, mode: 'second lost' })
    await bus.rests(id, 'WAITING_FOR_TSQ')
    expect(await bus.cancel(id, 'COMPENSATE')).toBe('done')
    const [command] = (await bus.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
    await waitFor('the worker has seen the cancel', async () => {
      const { due_at, leased_by, error_code } = await bus.process(id)
      return due_at === null && leased_by === null && error_code === 'COMMAND_IN_TROUBLESHOOTING'
    })
    expect(doneFor(of)).toEqual(['first', 'second'])
    repaired.add(of)
    await bus.hf.command(Do, command?.id ?? '')[verb](by)
    await bus.rests(id, 'CANCELLED')
    const again = verb === 'retry' ? ['second'] : []
    expect(doneFor(of)).toEqual(['first', 'second', ...again, 'undo second', 'undo first'])
    expect(await troubles(id)).toEqual([])
    // An operator who comes too late is refused, and changes nothing.
    await expect(bus.hf.process(Repaired, id).retry(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
    await expect(bus.hf.command(Do, command?.id ?? '').retry(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  },
)

test('P-16 cancelled without compensation while its command is in troubleshooting, it ends at once, and the command still needs a person', async () => {
  const of = 'left to a person'
  const { id } = await bus.hf.start(Repaired, { of, mode: 'second lost' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(await bus.cancel(id, 'PLAIN')).toBe('done')
  await bus.rests(id, 'CANCELLED')
  expect(await troubles(id)).toEqual([])
  const [command] = (await bus.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
  await bus.hf.command(Do, command?.id ?? '').cancel(by)
  expect(await bus.process(id)).toMatchObject({ status: 'CANCELLED' })
  expect(doneFor(of)).toEqual(['first', 'second'])
})

test('M-03 operators who retry the process and its command at the same moment call the command once more, and no step twice', async () => {
  const of = 'both at once'
  const { id } = await bus.hf.start(Repaired, { of, mode: 'second broken' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  const [command] = (await bus.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
  repaired.add(of)
  const process = bus.hf.process(Repaired, id)
  const answers = await Promise.allSettled([
    process.retry(by),
    bus.hf.command(Do, command?.id ?? '').retry(by),
    process.retry(by),
    bus.hf.command(Do, command?.id ?? '').retry(by),
  ])
  // A second operator, one who comes after the end, and one whose process only waits for its command, are told so.
  for (const answer of answers) {
    if (answer.status === 'rejected') {
      expect(answer.reason).toMatchObject({ code: expect.stringMatching(/^HF_(WRONG_STATUS|CANNOT_RETRY)$/) })
    }
  }
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ state: { replies: 2 } })
  expect(doneFor(of)).toEqual(['first', 'second', 'second'])
  expect(await troubles(id)).toEqual([])
})

test('P-16 cancelled with compensation while its handlers fail: the step whose reply is kept is undone too', async () => {
  faults.add('kept onReply second')
  const { id } = await bus.hf.start(Repaired, { of: 'kept' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  await bus.cancel(id, 'COMPENSATE')
  await bus.rests(id, 'CANCELLED')
  expect(doneFor('kept')).toEqual(['first', 'second', 'undo second', 'undo first'])
  expect(await troubles(id)).toEqual([])
})

test('K-19 M-04 a command that an operator cancelled after it was called is undone too: its outcome is unknown', async () => {
  const { id } = await bus.hf.start(Repaired, { of: 'unheard', mode: 'second lost' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  const [command] = (await bus.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
  await bus.hf.command(Do, command?.id ?? '').cancel(by)
  await bus.rests(id, 'COMPENSATED')
  expect(doneFor('unheard')).toEqual(['first', 'second', 'undo second', 'undo first'])
})

test('K-19 M-04 a command that was refused after a call of unknown outcome is undone too', async () => {
  const { id } = await bus.hf.start(Repaired, { of: 'too late', mode: 'second lost' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  faults.add('too late second')
  const [command] = (await bus.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
  await bus.hf.command(Do, command?.id ?? '').retry(by)
  expect(await bus.rests(id, 'COMPENSATED')).toMatchObject({ error_code: 'REFUSED' })
  expect(doneFor('too late')).toEqual(['first', 'second', 'second', 'undo second', 'undo first'])
})

test('K-19 P-16 cancelled while its handlers fail: a step whose reply says that the outcome is unknown is undone too', async () => {
  faults.add('kept unknown onReply second')
  const { id } = await bus.hf.start(Repaired, { of: 'kept unknown', mode: 'second lost' })
  await bus.rests(id, 'WAITING_FOR_TSQ')
  const [command] = (await bus.hf.commands.list({ correlationId: id, status: 'IN_TROUBLESHOOTING_QUEUE' })).items
  await bus.hf.command(Do, command?.id ?? '').cancel(by)
  await waitFor('its handler has failed', async () => (await bus.process(id)).error_code === 'HANDLER_FAILED')
  await bus.cancel(id, 'COMPENSATE')
  await bus.rests(id, 'CANCELLED')
  expect(doneFor('kept unknown')).toEqual(['first', 'second', 'undo second', 'undo first'])
})

test('M-03 C-12 processes of a batch are counted when they end', async () => {
  const batchId = await bus.hf.batches.open('orders')
  await bus.hf.start(Repaired, { of: 'batched' }, { batch: batchId })
  await bus.hf.start(Repaired, { of: 'batched too', mode: 'first refused' }, { batch: batchId })
  await bus.hf.batches.seal(batchId)
  const closed = await waitFor('the batch is closed', async () => {
    const batch = await bus.hf.batches.get(batchId)
    return batch.completedAt && batch
  })
  expect(closed).toMatchObject({ status: 'COMPLETED_WITH_FAILURES', total: 2, completed: 1, failed: 1 })
})

test('K-18 a paused manager’s replies wait until it is resumed', async () => {
  await bus.hf.pause({ definition: 'repairs/Repaired' }, by)
  const { id } = await bus.hf.start(Repaired, { of: 'paused' })
  await waitFor('its first command is done', () => doneFor('paused').length === 1)
  await waitFor('the reply is left for later', async () => {
    const [row] = await bus.sql<{ later: boolean }>(
      `select bool_and(vt > holdfast.now() and read_ct = 0) as later from pgmq.q_repairs__process_replies`,
    )
    return row?.later
  })
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_REPLY', waiting_for: 'first' })
  await bus.hf.resume({ definition: 'repairs/Repaired' }, by)
  await bus.rests(id, 'COMPLETED')
})
