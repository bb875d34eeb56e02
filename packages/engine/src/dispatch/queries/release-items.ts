import type { Executor } from '../../kernel/model/index.js'

/** Where the last claim ended: the next one begins there. */
export interface Mark {
  readonly due: string
  readonly seq: string
}

export interface ReleaseRequest {
  readonly type: string
  readonly epoch: number
  readonly batch: string
  readonly most: number
  readonly execType: string
  readonly version: number
  readonly contextVersion: number
  /** Another process or workflow than the definition's own is started: its schema has not checked the context. */
  readonly redirected: boolean
  /** Of a workflow: the stored definition. */
  readonly definitionId?: number
}

export interface Released {
  /**
   * `lost`: the lease is another's. `off`: switched off meanwhile. `ahead`: enough has been released and not begun. `unknown
   * definition`: the stored workflow is gone.
   */
  readonly outcome: 'lost' | 'off' | 'ahead' | 'released' | 'unknown definition'
  readonly claimed: number
  readonly started: number
  readonly failed: number
  /** The batch is full: more items may be due. */
  readonly full: boolean
  readonly mark: Mark | undefined
  readonly tripped: string | null
}

interface Answer extends Partial<Released> {
  readonly outcome: Released['outcome']
  readonly lastDue?: string
  readonly lastSeq?: string
}

/** Claims, starts and records a batch on our own engine, in one statement. */
export async function releaseItems(
  executor: Executor,
  request: ReleaseRequest,
  from: Mark | undefined,
  slots: readonly number[] | undefined,
): Promise<Released> {
  const [row] = await executor.run<{ answer: Answer }>(releaseStatement, [
    JSON.stringify(request),
    from?.due ?? null,
    from?.seq ?? null,
    slots ?? null,
  ])
  const {
    outcome,
    claimed = 0,
    started = 0,
    failed = 0,
    full = false,
    tripped = null,
    lastDue,
    lastSeq,
  } = row?.answer ?? lost
  const mark = lastDue === undefined || lastSeq === undefined ? undefined : { due: lastDue, seq: lastSeq }
  return { outcome, claimed, started, failed, full, tripped, mark }
}

const lost: Answer = { outcome: 'lost' }

/** Fails the first item that is due, where not even a batch of one could be released. Returns its key. */
export async function failFirstDue(
  executor: Executor,
  { type, epoch }: Pick<ReleaseRequest, 'type' | 'epoch'>,
  from: Mark | undefined,
  { code, message }: { readonly code: string; readonly message: string },
): Promise<string | null> {
  const [row] = await executor.run<{ item: string | null }>(failStatement, [
    type,
    epoch,
    from?.due ?? null,
    from?.seq ?? null,
    code,
    message,
  ])
  return row?.item ?? null
}

const releaseStatement = {
  name: 'dispatch.release',
  text: `
    select holdfast.release_dispatch_items($1::text::jsonb, $2::timestamptz, $3::bigint, $4::float8[]) as answer`,
}

const failStatement = {
  name: 'dispatch.fail-first-due',
  text: 'select holdfast.fail_first_due($1, $2, $3::timestamptz, $4::bigint, $5, $6) as item',
}
