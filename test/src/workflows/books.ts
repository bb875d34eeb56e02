import type pg from 'pg'

/** Everything that is on record about an instance, and what its handlers did. */
export interface InstanceBooks {
  readonly id: string
  readonly status: string
  readonly output: unknown
  readonly failedStep: string | null
  readonly errorCode: string | null
  readonly steps: readonly {
    readonly name: string
    readonly status: string
    readonly attempts: number
    readonly undoAttempts: number
    readonly order: number | null
    readonly queued: boolean
  }[]
  readonly events: readonly { readonly type: string; readonly step: string | null; readonly skipped: boolean }[]
  readonly calls: readonly { readonly call: string; readonly recorded: boolean }[]
  /** What its transactions have written. */
  readonly bookings: readonly string[]
}

const statement = `
  select workflow.id, workflow.status, workflow.output, workflow.failed_step as "failedStep",
    workflow.failure ->> 'code' as "errorCode",
    (
      select json_agg(json_build_object('name', name, 'status', step.status, 'attempts', attempts, 'undoAttempts',
        compensation_attempts, 'order', ended_order, 'queued', due_at is not null or in_flight) order by number)
      from holdfast.workflow_step as step
      where workflow_id = workflow.id
    ) as steps,
    (
      select json_agg(json_build_object('type', event, 'step', detail ->> 'step',
        'skipped', detail ? 'compensation' and detail ->> 'compensation' is null) order by at, seq)
      from holdfast.audit
      where subject_id = workflow.id
    ) as events,
    coalesce((
      select json_agg(json_build_object('call', call, 'recorded', recorded) order by n)
      from effect where instance_id = workflow.id
    ), '[]') as calls,
    array(select what from booking where instance_id = workflow.id order by 1) as bookings
  from holdfast.workflow
  where workflow.id = any ($1::uuid[])
  order by workflow.id`

export async function booksOf(pool: pg.Pool, ids: readonly string[]): Promise<InstanceBooks[]> {
  const { rows } = await pool.query<InstanceBooks>(statement, [ids])
  return rows
}

const once = ['step_completed', 'join_completed', 'fork_started', 'compensation_success', 'condition_evaluated']

/**
 * What is wrong with an instance's books once it has ended: something that ended twice, a call after its end was recorded,
 * more calls than were counted, compensations that did not succeed strictly backwards, or something left in the queue.
 * A call whose worker died is made again and not counted again (K-26).
 */
export function faultsIn({ status, steps, events, calls }: InstanceBooks, deaths = 0): string[] {
  const wrong: string[] = []
  for (const { name, queued } of steps) if (queued) wrong.push(`${name} is still queued`)
  if (status === 'COMPLETED' && steps.some((step) => step.status === 'ROLLED_BACK')) wrong.push('COMPLETED and undone')
  for (const { call, recorded } of calls) if (recorded) wrong.push(`${call} was called after it was recorded`)
  for (const { name, attempts } of steps) {
    const count = (type: string) => events.filter((event) => event.type === type && event.step === name).length
    for (const type of once) if (count(type) > 1) wrong.push(`${type} ${name} ${count(type)} times`)
    const made = calls.filter(({ call }) => call === name).length
    if (made > attempts + deaths) wrong.push(`${name} was called ${made} times and counted ${attempts} times`)
  }
  const ends = events.filter(({ type }) => /^workflow_(completed|failed|cancelled|aborted)$/.test(type)).length
  if (ends !== 1) wrong.push(`it has ended ${ends} times`)
  return [...wrong, ...faultsInOrder({ steps, events })]
}

/** The failing step first; the others strictly the last to end first. */
function faultsInOrder({ steps, events }: Pick<InstanceBooks, 'steps' | 'events'>): string[] {
  const undone = events.filter(({ type }) => type === 'compensation_success').map(({ step }) => step)
  const orders = undone.slice(1).map((name) => steps.find((step) => step.name === name)?.order ?? 0)
  const backwards = orders.every((order, place) => place === 0 || order < (orders[place - 1] ?? 0))
  return backwards ? [] : [`undone in the order ${undone.join(', ')}`]
}
