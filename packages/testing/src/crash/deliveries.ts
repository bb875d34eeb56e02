import { createRandom, shuffled } from '../simulation/random.js'

/** When the responses come, each by its place in the user's list. */
export interface DeliveryPlan {
  /** Before anything has run. */
  readonly early: readonly number[]
  /** One whenever nothing is due. */
  readonly during: readonly number[]
  /** Once more, after the end. */
  readonly late: readonly number[]
}

/** Order 0 is the right one: each once, in order. Any other delivers each three times: twice in any order, and late. */
export function planDeliveries(responses: number, order: number): DeliveryPlan {
  const all = Array.from({ length: responses }, (_, place) => place)
  if (order === 0) return { early: [], during: all, late: [] }
  const random = createRandom(`deliveries ${order}`)
  const mixed = shuffled([...all, ...all], random)
  const early = Math.floor(random() * (mixed.length + 1))
  return { early: mixed.slice(0, early), during: mixed.slice(early), late: shuffled(all, random) }
}

export function describePlan({ early, during, late }: DeliveryPlan): string {
  const told = (places: readonly number[]) => places.map((place) => place + 1).join(', ') || 'none'
  return `early ${told(early)}; then ${told(during)}; late ${told(late)}`
}
