import { HoldfastError } from '../errors.js'
import type { DriverResult } from './driver.js'
import { maskHidden } from './statements.js'

/**
 * User code inside a transaction of ours must not end that transaction, nor leave settings behind on a connection that
 * others use next. `refuseControl` refuses such a statement before it is sent. What it cannot see in the text (escape
 * strings, nested comments) is noticed by `judgeResult` in the server's answer; what was committed by then stays.
 */

const ENDS_TRANSACTION =
  /^(?:commit\b|abort\b|begin\b|start\s+transaction\b|prepare\s+transaction\b|end(?:\s+(?:work|transaction))?(?:\s+and\b|$)|rollback(?!(?:\s+(?:work|transaction))?\s+to\b)\b)/i
const CHANGES_SESSION =
  /^(?:set\s+(?!local\b|constraints\b|transaction\b)|reset\b|discard\b|listen\b|unlisten\b|load\b)/i
/** Most statements hold none of these words and are not looked at any further. */
const SUSPICIOUS =
  /\b(?:commit|abort|begin|start|prepare|end|rollback|set|set_config|reset|discard|listen|unlisten|load)\b/i
const KEEPS_SETTING = /\bset_config\s*\(/gi
const LOCAL_SETTING = /\bset_config\s*\([^()]*,\s*(?:is_local\s*=>\s*)?true\s*\)/gi
const SESSION_SETTING = /\bset_config\s*\([^()]*,\s*(?:is_local\s*=>\s*)?false\s*\)/i

/** Throws HF_TRANSACTION_CONTROL for a text that would end the transaction or change the session. */
export function refuseControl(text: string): void {
  if (!SUSPICIOUS.test(text)) return
  const masked = maskHidden(text)
  // The body of such a function is not quoted, and its own BEGIN and END are no statements.
  if (/\bbegin\s+atomic\b/i.test(masked)) return
  for (const statement of masked.split(';')) {
    const words = statement.trim()
    if (ENDS_TRANSACTION.test(words)) throw refused(words, 'would end a transaction that Holdfast opened')
    if (CHANGES_SESSION.test(words))
      throw refused(words, 'would change the session for the next user of the connection')
  }
  if (SESSION_SETTING.test(text))
    throw refused('set_config(…, false)', 'would change the session for the next user of the connection')
}

/** Whether a text that was not refused may still leave a setting behind: the connection is not used again then. */
export function mayKeepSetting(text: string): boolean {
  const calls = text.match(KEEPS_SETTING)?.length ?? 0
  return calls > (text.match(LOCAL_SETTING)?.length ?? 0)
}

/** What the server's answer says: `ended`: the transaction is over; `ask`: it may be; `session`: a setting was changed. */
export function judgeResult(result: DriverResult | DriverResult[], text: string): 'fine' | 'ended' | 'ask' | 'session' {
  const commands = (Array.isArray(result) ? result : [result]).map(({ command }) => command)
  if (commands.some((command) => /^(?:COMMIT|BEGIN|START|PREPARE TRANSACTION)/.test(command ?? ''))) return 'ended'
  // Also the answer to ROLLBACK TO SAVEPOINT.
  if (commands.includes('ROLLBACK')) return 'ask'
  const changed = commands.some((command) => /^(?:SET|RESET|DISCARD|LISTEN|UNLISTEN)$/.test(command ?? ''))
  return changed && !/\bset\s+(?:local|transaction)\b/i.test(text) ? 'session' : 'fine'
}

function refused(words: string, problem: string): HoldfastError<'HF_TRANSACTION_CONTROL'> {
  const statement = words.length > 60 ? `${words.slice(0, 60)}…` : words
  return new HoldfastError('HF_TRANSACTION_CONTROL', { statement, problem })
}
