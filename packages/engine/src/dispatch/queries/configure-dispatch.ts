import type { By, Executor } from '../../kernel/model/index.js'
import { unknownDefinition } from '../reference.js'
import { refusedSetting } from '../settings.js'

export async function configureDispatch(
  executor: Executor,
  itemType: string,
  changes: Record<string, unknown>,
  { actor, reason }: By,
): Promise<void> {
  let known: boolean | undefined
  try {
    const [row] = await executor.run<{ known: boolean }>(configureStatement, [
      itemType,
      JSON.stringify(changes),
      actor,
      reason,
    ])
    known = row?.known
  } catch (error) {
    throw refusedSetting(`dispatch.configure ${itemType}`, error)
  }
  if (!known) throw unknownDefinition(itemType)
}

export async function resumeDispatch(executor: Executor, itemType: string, { actor, reason }: By): Promise<void> {
  const [row] = await executor.run<{ known: boolean }>(resumeStatement, [itemType, actor, reason])
  if (!row?.known) throw unknownDefinition(itemType)
}

const resumeStatement = { name: 'dispatch.resume', text: 'select holdfast.resume_dispatch($1, $2, $3) as known' }

const configureStatement = {
  name: 'dispatch.configure',
  text: 'select holdfast.configure_dispatch($1, $2::text::jsonb, $3, $4) as known',
}
