import type { Executor } from '../../kernel/model/index.js'
import type { ResponseRow } from '../history.js'
import { type Incoming, toIncoming } from './write-processes.js'

export async function findNews(
  executor: Executor,
  executions: readonly { readonly id: string; readonly heard: number }[],
): Promise<ReadonlyMap<string, Incoming>> {
  const [row] = await executor.run<{ news: NewsOf[] | null }>(statement, [
    executions.map(({ id }) => id),
    executions.map(({ heard }) => heard),
  ])
  return new Map((row?.news ?? []).map((news) => [news.id, toIncoming(news)]))
}

interface NewsOf {
  id: string
  cancel: Incoming['cancel']
  responses: ResponseRow[] | null
}

const statement = { name: 'processes.find-news', text: 'select holdfast.process_news($1::uuid[], $2::int[]) as news' }
