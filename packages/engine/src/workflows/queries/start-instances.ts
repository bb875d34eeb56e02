import type { Executor } from '../../kernel/model/index.js'

export interface StartAnswer {
  readonly id: string
  /** False: it existed already. */
  readonly created: boolean
  /** The existing instance, if it was not created. */
  readonly name?: string
  readonly version?: number
}

/** Creates instances (see `startDocument`); returns the results in their order. One text parameter: it also runs inside callers' transactions. */
export async function startInstances(
  executor: Executor,
  starts: readonly { readonly id: string; readonly document: string }[],
): Promise<StartAnswer[]> {
  const documents = `[${starts.map(({ document }) => document).join(',')}]`
  const [row] = await executor.run<{ answers: [string, boolean | null, string, number][] | null }>(statement, [
    documents,
  ])
  const answers = row?.answers
  if (!answers) return starts.map(({ id }) => ({ id, created: true }))
  return answers.map(([id, created, name, version]) => ({ id, created: created === true, name, version }))
}

const statement = {
  name: 'workflows.start',
  text: 'select holdfast.start_workflow_instances($1::text::jsonb) as answers',
}
