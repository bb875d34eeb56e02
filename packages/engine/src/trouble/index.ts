export type { TroubleFilter, TroubleListFilter } from './filter.js'
export { measureNeedingPerson } from './needing-person.js'
export type { Trouble, TroubleGroup } from './queries/find-trouble.js'
export type { TroubleReference, WhichTroubles } from './select.js'
export {
  createTroubles,
  type TroubleAssignOptions,
  type TroubleCompleteOptions,
  type TroubleRetryOptions,
  type Troubles,
} from './trouble.js'
