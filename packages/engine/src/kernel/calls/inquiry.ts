/**
 * What `inquire` answers about a call of unknown outcome (K-20): it was done, with this result; it was not done, so that it may
 * be made; or that is still unknown.
 */
export type Inquiry<Result> = { readonly done: Result } | 'notDone' | 'unknown'

/** The answer of user code, checked: what is none of the three is as good as unknown. */
export function checkInquiry(answer: unknown): Inquiry<unknown> {
  if (answer === 'notDone') return answer
  return typeof answer === 'object' && answer !== null && 'done' in answer ? { done: answer.done } : 'unknown'
}
