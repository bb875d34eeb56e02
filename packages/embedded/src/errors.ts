/** What can go wrong, by stable code; the reference in `docs/guides/embedded-postgres.md` lists every one. */
export const embeddedErrorCodes = [
  'HF_EMBEDDED_INVALID_OPTION',
  'HF_EMBEDDED_DATABASE_URL',
  'HF_EMBEDDED_UNSUPPORTED_PLATFORM',
  'HF_EMBEDDED_BINARIES_UNUSABLE',
  'HF_EMBEDDED_NO_ACCOUNT',
  'HF_EMBEDDED_DATA_DIR_INCOMPLETE',
  'HF_EMBEDDED_DATA_DIR_FOREIGN',
  'HF_EMBEDDED_DATA_DIR_UNREACHABLE',
  'HF_EMBEDDED_VERSION_MISMATCH',
  'HF_EMBEDDED_PORT_TAKEN',
  'HF_EMBEDDED_RUNNING_DIFFERENTLY',
  'HF_EMBEDDED_LOCKED',
  'HF_EMBEDDED_INITDB_FAILED',
  'HF_EMBEDDED_START_FAILED',
  'HF_EMBEDDED_STOP_FAILED',
] as const

export type EmbeddedErrorCode = (typeof embeddedErrorCodes)[number]

/**
 * Every error of this package: a stable `code`, what happened and where, and what to do next.
 *
 * @example
 * try { await startEmbedded() } catch (error) {
 *   if (error instanceof EmbeddedPostgresError) console.error(error.code, error.message)
 * }
 */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError'
  readonly code: EmbeddedErrorCode
  /** The part of the message that says what to do. */
  readonly next: string

  constructor(
    code: EmbeddedErrorCode,
    happened: string,
    next: string,
    options: { cause?: unknown; log?: string } = {},
  ) {
    const log = options.log ? `\n\nThe end of the server's log:\n${options.log}` : ''
    super(`${happened}\n${next} [${code}]${log}`, options.cause === undefined ? {} : { cause: options.cause })
    this.code = code
    this.next = next
  }
}

/** The `code` of a Node.js system error ('ENOENT', …), or undefined for anything else. */
export function systemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}
