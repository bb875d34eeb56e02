import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../../commands/index.js'
import { createCodec } from '../../kernel/codec/codec.js'
import type { ManagedProcess } from '../queries/read-managed.js'
import type { StoredReply } from '../replies/message.js'
import { decide, type Incoming } from './decide.js'
import { type DefinedManager, definedManager, defineManager } from './define.js'
import { handlersOf } from './handlers.js'
import { stepCommand } from './step-command.js'

const Do = defineCommand('decided', 'Do')
const Decided = defineManager('decided', 'Decided', {
  state: z.object({ seen: z.array(z.string()) }),
  firstStep: () => 'one',
  command: (step) => stepCommand(Do, step),
  onReply: ({ seen }, step, { outcome }) => ({ seen: [...seen, `${step} ${outcome}`] }),
  nextStep: (step) => ({ one: 'wait', wait: 'two', two: 'one' })[step] ?? null,
  compensation: (step) => stepCommand(Do, `undo ${step}`),
  waitOnly: (step) => step === 'wait',
})
const handlers = handlersOf(definedManager(Decided) as DefinedManager)
const codec = createCodec()

const process: ManagedProcess = {
  id: '01900000-0000-7000-8000-000000000000',
  type: 'decided/Decided',
  version: 1,
  status: 'WAITING_FOR_REPLY',
  epoch: 4,
  generation: 1,
  cancel: null,
  now: 1_000,
  deadline: null,
  responses: 0,
  seen: 0,
  seq: 1,
  state: { seen: [] },
  stateNotes: null,
  last: {
    seq: 1,
    kind: 'COMMAND',
    name: 'one',
    occurrence: 1,
    status: 'STARTED',
    attempt: null,
    detail: { startedId: 'c1', entered: { one: 1 } },
    at: 1_000,
  },
  ahead: [],
  unwind: null,
}

let messages = 0
function nextMessage(): string {
  messages += 1
  return String(messages)
}
const incoming = (reply: Partial<StoredReply>, more: Partial<Incoming> = {}): Incoming => ({
  messageId: nextMessage(),
  readCount: 1,
  replyId: null,
  final: true,
  before: {},
  reply: { commandId: null, outcome: 'SUCCESS', ...reply },
  ...more,
})
const asked = (replies: Incoming[], managed: Partial<ManagedProcess> = {}) =>
  decide({ managed: { ...process, ...managed }, replies, completed: [], handlers, codec })
const lines = ({ events }: ReturnType<typeof decide>) =>
  events.map(({ kind, name, occurrence, status }) => `${kind} ${name}#${occurrence} ${status}`)
const seenIn = ({ state }: ReturnType<typeof decide>): unknown => JSON.parse(state?.json ?? 'null')?.seen

describe('decide', () => {
  it('M-03 applies in one decision all that came at once: the reply, replies for the next step, and duplicates', () => {
    const decision = asked([
      incoming({ commandId: null }, { replyId: 'a' }),
      incoming({ commandId: 'c1' }),
      incoming({ commandId: 'c1', outcome: 'FAILED' }),
      incoming({ commandId: null }, { replyId: 'a' }),
    ])
    expect(lines(decision)).toEqual([
      'COMMAND one#1 COMPLETED',
      'WAIT wait#1 STARTED',
      'EVENT wait#1 COMPLETED',
      'COMMAND two#1 STARTED',
    ])
    expect(seenIn(decision)).toEqual(['one SUCCESS', 'wait SUCCESS'])
    expect(decision.send).toMatchObject({ step: 'two' })
    expect(decision.ignored).toHaveLength(2)
    expect(decision).toMatchObject({ seen: 1, suspension: { status: 'WAITING_FOR_REPLY', ended: false } })
  })

  it('M-05 gives each execution of a step a command id of its own, the same however often it is computed', () => {
    const at = (entered: Record<string, number>) =>
      asked([incoming({ commandId: 'c2' })], {
        last: { ...process.last, name: 'two', detail: { startedId: 'c2', entered } },
      })
    const first = at({ two: 1 }).send?.commandId
    const again = at({ two: 2, one: 1 }).send?.commandId
    expect(first).toBe(at({ two: 1 }).send?.commandId)
    expect(again).not.toBe(first)
    expect(lines(at({ two: 2, one: 1 }))).toContain('COMMAND one#2 STARTED')
  })

  it('M-03 keeps a reply from outside that no step waits for, and moves nothing', () => {
    const decision = asked([incoming({ commandId: 'somebody else’s' })])
    expect(decision).toMatchObject({ moves: false, events: [], keep: [{ number: 1 }], send: undefined })
  })

  it.each([
    ['the command was answered before', { before: { earlierCommand: true } }],
    ['it is on record under its id', { replyId: 'a', before: { recorded: true } }],
    ['it is provisional and from outside', { final: false }],
  ] as [string, Partial<Incoming>][])('M-03 ignores a reply: %s', (_, more) => {
    const decision = asked([incoming({ commandId: 'c0' }, more)])
    expect(decision).toMatchObject({ moves: false, events: [], keep: [], ignored: [{}] })
  })

  it('M-03 a provisional failure waits for the operator, and the final reply goes on', () => {
    const provisional = asked([
      incoming({ commandId: 'c1', outcome: 'FAILED', errorCode: 'NO_ROUTE' }, { final: false }),
    ])
    expect(provisional.suspension).toMatchObject({
      status: 'WAITING_FOR_TSQ',
      error: { code: 'COMMAND_IN_TROUBLESHOOTING' },
    })
    const [event] = provisional.events
    if (!event) throw new Error('nothing was recorded')
    const last = { ...event, attempt: null, at: 1_000 }
    const final = asked([incoming({ commandId: 'c1' })], { status: 'WAITING_FOR_TSQ', last, seq: 2 })
    expect(final.suspension).toMatchObject({ status: 'WAITING_FOR_REPLY', error: undefined })
    expect(final.events[0]?.detail).toEqual({ startedId: 'c1' })
  })

  it('M-03 a reply that ends its workers again and again goes to troubleshooting', () => {
    const decision = asked([incoming({ commandId: 'c1' }, { readCount: 6 })])
    expect(decision.suspension).toMatchObject({ status: 'WAITING_FOR_TSQ', error: { code: 'CRASH_LOOP' } })
    expect(decision.events).toMatchObject([{ status: 'WAITING_RETRY', detail: { reply: { commandId: 'c1' } } }])
    expect(decision.state).toBeUndefined()
  })

  it('M-04 the reply of a compensation never completes the process', () => {
    const undoing: Partial<ManagedProcess> = {
      status: 'COMPENSATING',
      unwind: { end: 'COMPENSATED' },
      last: { ...process.last, kind: 'COMPENSATION', attempt: 1, detail: { startedId: 'u1', of: 2 } },
    }
    const decision = asked([incoming({ commandId: 'u1' })], undoing)
    expect(decision.suspension).toMatchObject({ status: 'COMPENSATED', ended: true })
    expect(decision.state).toBeUndefined()
    const failed = asked([incoming({ commandId: 'u1', outcome: 'CANCELLED' })], undoing)
    expect(failed.suspension).toMatchObject({ status: 'WAITING_FOR_TSQ', error: { code: 'COMPENSATION_FAILED' } })
  })

  it('M-03 after the end a reply is in the state and nothing moves', () => {
    const decision = asked([incoming({ commandId: 'c1' })], { status: 'CANCELLED' })
    expect(decision).toMatchObject({ moves: false, send: undefined, late: [{ commandId: 'c1' }] })
    expect(seenIn(decision)).toEqual(['one SUCCESS'])
  })
})
