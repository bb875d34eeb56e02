import type { Executor } from '../../kernel/model/index.js'

/** The newest version of a process that workers have lately had: what it is started with when an operator names it. */
export async function findNewestVersion(executor: Executor, type: string): Promise<number> {
  const [row] = await executor.run<{ version: number | null }>(findStatement, [type])
  return row?.version ?? 1
}

const findStatement = { name: 'dispatch.find-newest-version', text: 'select holdfast.newest_definition($1) as version' }
