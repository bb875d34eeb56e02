import { HoldfastError } from '../kernel/errors.js'
import type { Executor, Started } from '../kernel/model/index.js'
import type { Envelope } from './envelope.js'
import { type SendOutcome, sendCommands } from './queries/send-commands.js'

/** The most commands in one statement. */
const CHUNK = 1_000

interface Bulk {
  readonly count: number
  readonly encode: (place: number) => Envelope | Promise<Envelope>
  /** Whether the command was sent now; throws if it was refused, which ends the whole call. */
  readonly check: (place: number, envelope: Envelope, outcome: SendOutcome | undefined) => boolean
}

/** One of many that were sent. */
export interface Sent extends Started {
  readonly id: string
}

/** Thousands of commands in chunks. */
export interface PreparedBulk {
  /** Sends all of them; repeated after database trouble, it sends the same again. */
  send(executor: Executor): Promise<Sent[]>
}

/** Encodes the first chunk, so that most mistakes show before a transaction begins; each next one while one is sent. */
export async function prepareBulk({ count, encode, check }: Bulk): Promise<PreparedBulk> {
  const envelopes: Envelope[] = []
  const seen = new Set<string>()
  let encoding: Promise<void> = Promise.resolve()

  /** One after the other: a chunk may still be being parsed for a transaction that broke, when the next transaction needs it. */
  function ensureEncoded(end: number): Promise<void> {
    if (envelopes.length >= Math.min(end, count)) return Promise.resolve()
    encoding = encoding.then(() => encodeUpTo(end))
    // The code that waits for it gets the failure; a transaction that broke meanwhile no longer waits.
    encoding.catch(() => undefined)
    return encoding
  }

  async function encodeUpTo(end: number): Promise<void> {
    for (let place = envelopes.length; place < Math.min(end, count); place += 1) {
      const encoded = encode(place)
      const envelope = encoded instanceof Promise ? await encoded : encoded
      const { commandId, domain, type } = envelope
      if (seen.has(commandId))
        throw new HoldfastError('HF_DUPLICATE_COMMAND', { model: 'commands', domain, type, id: commandId })
      seen.add(commandId)
      envelopes.push(envelope)
    }
  }

  await ensureEncoded(CHUNK)
  return {
    async send(executor) {
      const sent: Sent[] = []
      for (let from = 0; from < count; from += CHUNK) {
        const chunk = envelopes.slice(from, from + CHUNK)
        const [outcomes] = await Promise.all([sendCommands(executor, chunk), ensureEncoded(from + 2 * CHUNK)])
        for (const [place, envelope] of chunk.entries()) {
          sent.push({ id: envelope.commandId, created: check(from + place, envelope, outcomes[place]) })
        }
      }
      return sent
    },
  }
}
