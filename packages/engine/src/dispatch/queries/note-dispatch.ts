import type { Executor } from '../../kernel/model/index.js'
import type { DefinedDispatch } from '../define.js'
import { refusedSetting } from '../settings.js'

/** Makes the rows of an item type that the installation does not know yet. */
export async function noteDispatch(executor: Executor, { name, engine, settings }: DefinedDispatch): Promise<void> {
  try {
    await executor.run(noteStatement, [name, engine, JSON.stringify(settings)])
  } catch (error) {
    throw refusedSetting(`defineDispatch ${name}: settings`, error)
  }
}

const noteStatement = { name: 'dispatch.note', text: 'select holdfast.note_dispatch($1, $2, $3::text::jsonb)' }
