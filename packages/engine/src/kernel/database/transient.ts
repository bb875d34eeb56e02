import { HoldfastError } from '../errors.js'

/** SQLSTATEs that mean "the same call can succeed a little later", each with what it tells about the database. */
const TRANSIENT_STATES: Readonly<Record<string, string>> = {
  '08000': 'connection exception',
  '08001': 'the client could not connect',
  '08003': 'the connection does not exist (any more)',
  '08004': 'the server rejected the connection',
  '08006': 'the connection failed',
  '08007': 'the connection was lost while a transaction was being decided',
  '25006': 'read-only: a standby responds, so a failover is under way or pg_hba points at the old primary',
  '25P03': 'ended by idle_in_transaction_session_timeout',
  '25P04': 'ended by transaction_timeout',
  '26000': 'the prepared statement is unknown: a pooler gave us another server connection',
  '40001': 'serialization failure',
  '40003': 'statement completion unknown',
  '40P01': 'deadlock: we were the one chosen to give way',
  '42P05': 'the prepared statement exists already: a pooler gave us the server connection of another client',
  '53000': 'insufficient resources',
  '53100': 'disk full',
  '53200': 'out of memory',
  '53300': 'too many connections',
  '53400': 'configuration limit exceeded',
  '55P03': 'lock not available (lock_timeout, NOWAIT)',
  '57014': 'cancelled by an operator or by statement_timeout',
  '57P01': 'the server shuts down or the backend was terminated',
  '57P02': 'another backend crashed, all were ended',
  '57P03': 'the server starts up or is in recovery',
  '57P04': 'the database was dropped under us: a restore may bring it back',
  '57P05': 'ended by idle_session_timeout',
}

/** What Node's sockets and resolver report. */
const TRANSIENT_SYSTEM_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens on the port',
  ECONNRESET: 'the other side dropped the connection',
  ECONNABORTED: 'the connection was aborted on our side',
  EPIPE: 'written to a connection that the other side had closed',
  ETIMEDOUT: 'no answer from the network',
  EHOSTUNREACH: 'no route to the host',
  EHOSTDOWN: 'the host is down',
  ENETUNREACH: 'no route to the network',
  ENETDOWN: 'the network is down',
  ENOTFOUND: 'the name does not resolve: a failover may be rewriting it',
  EAI_AGAIN: 'the resolver does not answer',
  ENOENT: 'the unix socket is not there: the server is down',
}

/** What drivers and poolers say in words only. `sent`: the statement may have reached the server. */
const TRANSIENT_TEXTS: readonly { readonly text: RegExp; readonly sent: boolean }[] = [
  // pg: the socket closed under a running query, by the other side or by our own time limit.
  { text: /^Connection terminated( unexpectedly)?$/, sent: true },
  // pg: our time limit for a statement.
  { text: /^Query read timeout$/, sent: true },
  // pg-pool: connecting took too long; no connection became free in time. pg: the socket did not open in time.
  { text: /^Connection terminated due to connection timeout$/, sent: false },
  { text: /^timeout exceeded when trying to connect$/, sent: false },
  { text: /^timeout expired$/, sent: false },
  // pg: the connection had broken, or was closed, before this query.
  { text: /^Client (has encountered a connection error|was closed) and is not queryable$/, sent: false },
  // PgBouncer: the server went away, or took too long, under a query.
  { text: /^server conn crashed\?$|^query timeout$/, sent: true },
  // PgBouncer: it found no server connection in time, cannot log on to the server, or has too many clients.
  { text: /^query_wait_timeout$|^client_idle_timeout$|^client_login_timeout/, sent: false },
  { text: /^server login has been failing|^pgbouncer cannot connect to server/, sent: false },
  { text: /^no more connections allowed/, sent: false },
  // A named statement met another one's parameters behind a pooler; found at bind, before anything ran.
  { text: /^bind message supplies \d+ parameters/, sent: false },
  // The table changed under a prepared statement; found before anything ran.
  { text: /^cached plan must not change result type$/, sent: false },
]

/** The connection was lost while a statement was in flight: its outcome is unknown. */
const UNKNOWN_STATES = new Set(['08000', '08003', '08006', '08007', '40003', '57P01', '57P02', 'XX000'])
const UNKNOWN_SYSTEM_ERRORS = new Set([
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
])

/** Errors of transactions that never got as far as their commit: whatever the error says, nothing was applied. */
const notApplied = new WeakSet<Error>()

/** Notes that what this error ended is rolled back for certain. */
export function markNotApplied(error: unknown): void {
  if (error instanceof Error) notApplied.add(error)
}

/**
 * Does this error mean "try again"? Data errors, missing rights and mistakes in SQL do not.
 *
 * @example
 * if (!isTransient(error)) throw error
 */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof HoldfastError) return isTransientOfOurs(error)
  // Node tries every address of a name; the aggregate itself says nothing.
  if (error instanceof AggregateError) return error.errors.some(isTransient)
  const code = codeOf(error)
  if (Object.hasOwn(TRANSIENT_STATES, code) || Object.hasOwn(TRANSIENT_SYSTEM_ERRORS, code)) return true
  // An internal error is a bug and comes again, unless it ended the session: poolers of cloud vendors report a lost
  // server so.
  if (code === 'XX000') return severityOf(error) === 'FATAL'
  return TRANSIENT_TEXTS.some(({ text }) => text.test(error.message))
}

function isTransientOfOurs(error: HoldfastError): boolean {
  if (error.code === 'HF_OUTCOME_UNKNOWN' || error.code === 'HF_DATABASE_UNAVAILABLE') return true
  return error.code === 'HF_DATABASE_UNREACHABLE' && isTransient(error.cause)
}

/**
 * Was the connection lost after the statement was sent, so that it may or may not have been applied? Such a write is
 * repeated only if it recognises its own earlier success. False means: refused or rolled back for certain.
 */
export function outcomeUnknown(error: unknown): boolean {
  if (!(error instanceof Error) || notApplied.has(error)) return false
  if (error instanceof HoldfastError) {
    if (error.code === 'HF_DATABASE_UNAVAILABLE') return outcomeUnknown(error.cause)
    return error.code === 'HF_OUTCOME_UNKNOWN'
  }
  if (TRANSIENT_TEXTS.some(({ text, sent }) => sent && text.test(error.message))) return true
  // What comes with severity ERROR is the answer to the statement: it was rolled back.
  if (severityOf(error) === 'ERROR') return false
  const code = codeOf(error)
  return UNKNOWN_STATES.has(code) || UNKNOWN_SYSTEM_ERRORS.has(code)
}

/** Is the connection broken or in an unknown state after this error, so that it must not go back to the pool? */
export function breaksConnection(error: unknown): boolean {
  // PostgreSQL reports mistakes with severity ERROR and ends the session with FATAL or PANIC. What has no severity
  // comes from the driver or the socket, where half a conversation may be left on the line.
  if (severityOf(error) !== 'ERROR') return true
  // PgBouncer gives its own errors this class and hangs up.
  return codeOf(error) === '08P01' && error instanceof Error && !error.message.startsWith('bind message supplies')
}

/** The SQLSTATE, or the code of a system error; empty if there is none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}

function severityOf(error: unknown): unknown {
  return error instanceof Error && 'severity' in error ? error.severity : undefined
}
