import type { Executor } from '../../kernel/database/executor.js'
import type { ProcessStatus } from '../states.js'

/** A process on its way to `holdfast.start_processes`, as JSON. */
export interface SealedStart {
  readonly id: string
  readonly key: string | undefined
  readonly json: string
}

export interface StartAnswer {
  readonly id: string
  /** Whether it was created by this call; otherwise its id or key existed already. */
  readonly created: boolean
  readonly status: Exclude<ProcessStatus, 'EXECUTING'> | 'batch closed' | 'other type'
  /** Milliseconds of the database's clock. */
  readonly now: number
  readonly deadline: number | null
  /** Whether its starter executes it; not where it is paused. */
  readonly lent: boolean
}

type Row = readonly [
  id: string,
  created: boolean,
  status: StartAnswer['status'],
  now: number,
  deadline: number | null,
  lent: boolean,
]

export async function startProcesses(
  executor: Executor,
  starts: readonly SealedStart[],
  statement = startStatement,
): Promise<StartAnswer[]> {
  const [row] = await executor.run<{ answers: Row[] | null }>(statement, [
    `[${starts.map(({ json }) => json).join(',')}]`,
  ])
  return (row?.answers ?? []).map(([id, created, status, now, deadline, lent]) => ({
    id,
    created,
    status,
    now,
    deadline,
    lent,
  }))
}

const startStatement = {
  name: 'processes.start',
  text: 'select holdfast.start_processes($1::text::jsonb) as answers',
}

export const flushStartsStatement = {
  name: 'processes.flush-starts',
  text: 'select holdfast.flush_starts($1::text::jsonb) as answers',
}
