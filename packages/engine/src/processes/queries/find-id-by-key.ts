import type { Executor } from '../../kernel/model/index.js'
import { notFound } from '../refused.js'

export async function findIdByKey(executor: Executor, type: string, key: string): Promise<string> {
  const [row] = await executor.run<{ id: string }>(statement, [type, key])
  if (!row) throw notFound(type, key)
  return row.id
}

const statement = {
  name: 'processes.find-id-by-key',
  text: 'select id from holdfast.process_detail where type = $1 and key = $2',
}
