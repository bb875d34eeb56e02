import type { Executor } from '../../kernel/model/index.js'

/** Makes due what queues for a limit that these definitions no longer have. */
export async function freeUnlimited(executor: Executor, types: readonly string[]): Promise<void> {
  await executor.run(statement, [types])
}

const statement = {
  name: 'processes.free-unlimited',
  text: 'select holdfast.free_unlimited_processes($1::text[])',
}
