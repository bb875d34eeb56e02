import type { Executor } from '../database/executor.js'

/**
 * Wakes the idle workers of a topic when the transaction commits. Models whose writes are SQL functions call
 * `holdfast.wake` there, in the same statement.
 */
export async function wakeTopic(executor: Executor, topic: string): Promise<void> {
  await executor.run(wakeStatement, [topic])
}

const wakeStatement = { name: 'notify.wake', text: 'select holdfast.wake($1::text)' }
