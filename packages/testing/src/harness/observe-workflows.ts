import type { Holdfast, WorkflowRecord } from 'holdfast'
import type { TestBus } from './test-bus.js'
import { waitFor } from './wait-for.js'

/** Looks at workflow instances as operators do, and does to their leases what time does. */
export function observeWorkflows({ hf, sql }: Pick<TestBus, 'sql'> & { readonly hf: Pick<Holdfast, 'workflow'> }) {
  async function statuses(id: string): Promise<Record<string, string>> {
    const steps = await hf.workflow(id).steps()
    return Object.fromEntries(steps.map(({ name, status }) => [name, status]))
  }
  async function lines(id: string): Promise<string[]> {
    const events = await hf.workflow(id).history()
    return events.map(({ type, step }) => (step === null ? type : `${type} ${step}`))
  }
  return {
    /** Its steps by name. */
    statuses,
    /** Its events in order: `step_completed charge`. */
    lines,
    /** The instance once it has that status. */
    async until(id: string, status: string, timeout = 20_000): Promise<WorkflowRecord> {
      try {
        const reached = async () => {
          const record = await hf.workflow(id).get()
          return record.status === status ? record : undefined
        }
        return await waitFor(`${id} is ${status}`, reached, { timeout })
      } catch (error) {
        const { status: now } = await hf.workflow(id).get()
        const seen = JSON.stringify({ now, steps: await statuses(id), events: await lines(id) }, null, 1)
        throw new Error(`it stands ${seen}`, { cause: error })
      }
    },
    /** Waits until a step has a status. */
    async untilStep(id: string, step: string, status: string): Promise<void> {
      await waitFor(`${step} is ${status}`, async () => (await statuses(id))[step] === status)
    },
    /** Ends the lease of a step, as if the worker that has it had died. */
    async endLease(id: string, step: string): Promise<void> {
      await sql(
        `update holdfast.workflow_step set due_at = holdfast.now() where workflow_id = $1 and name = $2 and leased_at is not null`,
        [id, step],
      )
    },
  }
}
