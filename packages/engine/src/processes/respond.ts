import { setTimeout as sleep } from 'node:timers/promises'
import type { Codec } from '../kernel/codec/codec.js'
import type { Notes } from '../kernel/codec/notes.js'
import { HoldfastError } from '../kernel/errors.js'
import { isId, newId } from '../kernel/ids/id.js'
import { checkKey } from '../kernel/ids/key.js'
import {
  type Batcher,
  createBatcher,
  type Database,
  GIVE_UP_AFTER,
  type Logger,
  type Metrics,
  type Queryable,
  withDatabaseRetry,
} from '../kernel/model/index.js'
import { createBackoff } from '../kernel/retry/backoff.js'
import { shown } from '../kernel/validation/describe.js'
import { checkOptions, textOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { DefinedProcess } from './define.js'
import { applyLate } from './late.js'
import { definedManager } from './managers/define.js'
import { findIdByKey } from './queries/find-id-by-key.js'
import { postResponses } from './queries/post-responses.js'
import { type ResponseAnswer, type ResponseWrite, respondProcesses } from './queries/respond-processes.js'
import { codeOf, nameOf, type ProcessOf } from './reference.js'
import { notFound, ofOtherType, unknownResponse } from './refused.js'
import type { ProcessRegistry } from './registry.js'

export interface RespondOptions {
  /** The same response sent twice under one id is recorded once. */
  readonly responseId?: string
  /** Your own transaction: only an inbox row is written in it, and a worker delivers it after the commit. */
  readonly transaction?: Queryable
}

export interface Respond {
  respond(
    process: ProcessOf<never>,
    idOrKey: string,
    response: string,
    data: unknown,
    options?: RespondOptions,
  ): Promise<void>
  /** Records what was checked already: an inbox row, the reply of a command. */
  record(definition: Pick<DefinedProcess, 'name'>, write: ResponseWrite, full?: DefinedProcess): Promise<ResponseAnswer>
  /** Records responses of the inbox to one process, in their order. Throws before any is recorded, or not at all. */
  recordInOrder(definition: DefinedProcess, writes: readonly ResponseWrite[]): Promise<void>
  close(): Promise<void>
}

/** How long to wait before a row that another transaction has locked is tried again. */
const HELD_FOR = 10

export function createRespond(
  db: Database,
  { codec, registry, logger, metrics }: { codec: Codec; registry: ProcessRegistry; logger: Logger; metrics: Metrics },
): Respond {
  let calls = 0
  const writes: Batcher<PlacedWrite, ResponseAnswer> = createBatcher<PlacedWrite, ResponseAnswer>({
    name: 'processes.respond',
    // Several to one process share a flush, in the order of their calls: the statement numbers them.
    key: ({ id, place }) => `${id} ${place}`,
    flush: async (responses) =>
      (await respondProcesses(db, responses)).map((answer) => (answer.kind === 'held' ? 'held' : { done: answer })),
    giveUpAfter: GIVE_UP_AFTER,
    logger,
    metrics,
  })

  /** The schemas of the responses are in the code. */
  function definitionOf(of: ProcessOf<never>, response: string): DefinedProcess {
    const name = nameOf('respond', of)
    const code = codeOf(of, registry)
    if (code) return code
    if (definedManager(of)) throw unknownResponse(name, response)
    const problem = `must be made with defineProcess, or registered here, to check the data of a response of ${name}`
    throw new HoldfastError('HF_INVALID_OPTION', { where: `respond ${name}`, option: 'definition', problem })
  }

  async function record(
    { name }: Pick<DefinedProcess, 'name'>,
    write: ResponseWrite,
    full?: DefinedProcess,
  ): Promise<ResponseAnswer> {
    calls += 1
    return settle({ name }, write, await writes.write({ ...write, place: placeOf(calls) }), full)
  }

  async function settle(
    { name }: Pick<DefinedProcess, 'name'>,
    write: ResponseWrite,
    answer: ResponseAnswer,
    full?: DefinedProcess,
  ): Promise<ResponseAnswer> {
    if (answer.kind === 'unknown') throw notFound(name, write.id)
    if (answer.kind === 'other type') {
      throw ofOtherType(name, write.id, answer.actual)
    }
    if (answer.kind !== 'late') return answer
    // Applied again from the start when another one came between.
    const applied = await patiently(`respond ${name}`, () => applyLate(db, { codec, logger }, full, write, answer))
    return applied ? answer : record({ name }, write, full)
  }

  async function recordInOrder(definition: DefinedProcess, responses: readonly ResponseWrite[]): Promise<void> {
    const [only, more] = responses
    if (only && !more) {
      await record(definition, only, definition)
      return
    }
    for (;;) {
      const answers = await respondProcesses(db, responses)
      if (answers.some(({ kind }) => kind === 'held')) {
        await sleep(HELD_FOR)
        continue
      }
      for (const [place, answer] of answers.entries()) {
        const write = responses[place]
        if (write) await settle(definition, write, answer, definition)
      }
      return
    }
  }

  return {
    async respond(of, process, response, data, options = {}) {
      const definition = definitionOf(of, response)
      const where = `respond ${definition.name}: ${shown(response)}`
      const given = checkOptions(where, options, ['responseId', 'transaction'])
      const known = definition.responses.get(response)
      if (!known) throw unknownResponse(definition.name, response)
      const responseId = textOption(where, 'responseId', given.responseId, { max: 200, default: newId() })
      const reference = isId(process) ? process.toLowerCase() : checkKey(where, process)
      const { json, notes } = codec.encode(await parseWith(known.data, data, where), { at: response })
      const encoded = { name: response, responseId, type: definition.name, json, notes: notes as Notes | null }
      if (options.transaction !== undefined) {
        await postResponses(db.inside(options.transaction), [
          { ...encoded, inboxId: newId(), reference, checked: true },
        ])
        return
      }
      const id = isId(process) ? reference : await patiently(where, () => findIdByKey(db, definition.name, reference))
      const answer = await record(definition, { ...encoded, id, direct: true }, definition)
      if (answer.kind !== 'behind') return
      const posted = { ...encoded, inboxId: newId(), reference: id, checked: true }
      await patiently(where, () => postResponses(db, [posted]))
    },
    record,
    recordInOrder,
    close: () => writes.close(GIVE_UP_AFTER),
  }
}

interface PlacedWrite extends ResponseWrite {
  readonly place: string
}

/** Sorted as text. */
const placeOf = (call: number): string => String(call).padStart(16, '0')

/**
 * What a response needs besides its write waits for a failover like the write itself. Each of them may be repeated: the
 * response id tells that it was recorded.
 */
function patiently<T>(name: string, operation: () => Promise<T>): Promise<T> {
  const backoff = createBackoff({ base: 20, cap: 2_000 })
  return withDatabaseRetry(operation, { name, idempotent: true, giveUpAfter: GIVE_UP_AFTER, backoff })
}
