import type { Executor } from 'holdfast/internal'

/** What the database shows after a scenario: the books that must balance. */
export interface TinyBooks {
  readonly items: number
  readonly done: number
  /** Items whose own code ran more than once. */
  readonly repeated: number
  readonly effects: number
  readonly audits: number
}

export async function tinyBooks(executor: Executor): Promise<TinyBooks> {
  const [books] = await executor.run<TinyBooks>({
    name: 'tiny.books',
    text: `
      select
        (select count(*)::int from holdfast.tiny) as items,
        (select count(*)::int from holdfast.tiny where last_write is not null and due_at is null) as done,
        (select count(*)::int from (select from holdfast.tiny_effect group by tiny_id having count(*) > 1) as twice) as repeated,
        (select count(*)::int from holdfast.tiny_effect) as effects,
        (select count(*)::int from holdfast.audit where model = 'tiny' and event = 'COMPLETED') as audits`,
  })
  if (!books) throw new Error('no books')
  return books
}
