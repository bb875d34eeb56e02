import type { Executor } from '../../kernel/database/executor.js'

/** Done; decided on a state that has changed since; locked by another transaction; not found. */
export type WriteAnswer = 'done' | 'changed' | 'held' | 'unknown'

/** Writes changes of different instances (see `changeDocument`), which come in the order of ids. */
export async function writeInstances(executor: Executor, documents: readonly string[]): Promise<WriteAnswer[]> {
  const [row] = await executor.run<{ answers: number[] | null }>(statement, [`[${documents.join(',')}]`])
  const answers = row?.answers
  return documents.map((_, place) => (answers ? (meanings[answers[place] ?? 1] ?? 'changed') : 'done'))
}

const meanings: readonly WriteAnswer[] = ['done', 'changed', 'held', 'unknown']

const statement = { name: 'workflows.write', text: 'select holdfast.write_workflows($1::text::jsonb) as answers' }
