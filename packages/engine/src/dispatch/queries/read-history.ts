import type { Executor, RecordedAuditEntry } from '../../kernel/model/index.js'

/**
 * What is on record about an item, oldest first; undefined where there is no such item. Types of the domain `default` had no domain
 * once, so what happened to their items then is found under the name they had.
 */
export async function readHistory(
  executor: Executor,
  itemType: string,
  key: string,
): Promise<readonly RecordedAuditEntry[] | undefined> {
  const names = [`${itemType}/${key}`, ...(itemType.startsWith('default/') ? [`${itemType.slice(8)}/${key}`] : [])]
  const [row] = await executor.run<{ there: boolean }>(existsStatement, [itemType, key])
  if (!row?.there) return undefined
  return executor.run<RecordedAuditEntry & object>(historyStatement, [names])
}

const existsStatement = {
  name: 'dispatch.item-exists',
  text: 'select exists (select from holdfast.dispatch_item where item_type = $1 and item_id = $2) as there',
}

const historyStatement = {
  name: 'dispatch.read-history',
  text: `
    select at, model, event, subject_name as subject, actor, reason, before, after, detail
    from holdfast.audit
    where subject_name = any ($1::text[]) and model = 'dispatch'
    order by seq`,
}
