import { type Executor, toWriteAnswer, type WriteAnswer } from '../../kernel/model/index.js'

/** Writes changes of different instances (see `changeDocument`), which come in the order of ids. */
export async function writeInstances(
  executor: Executor,
  writes: readonly { readonly document: string }[],
): Promise<WriteAnswer[]> {
  const documents = `[${writes.map(({ document }) => document).join(',')}]`
  const [row] = await executor.run<{ answers: number[] | null }>(statement, [documents])
  return writes.map((_, place) => (row?.answers ? toWriteAnswer(row.answers[place]) : 'done'))
}

const statement = {
  name: 'workflows.write',
  text: 'select holdfast.write_workflow_changes($1::text::jsonb) as answers',
}
