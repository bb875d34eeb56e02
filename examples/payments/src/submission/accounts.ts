import { currencyCodes } from '../domain/currency.js'

/** Accounts to pay from and to: some in every currency. */
export const demoAccounts = currencyCodes.flatMap((currency) =>
  ['ann', 'bob', 'carla', 'dieter'].map((holder) => ({ number: `${currency}-${holder}`, holder, currency })),
)
