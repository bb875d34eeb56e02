/** The currencies we pay in, and how many digits their amounts have after the point. */
export const currencies = { BHD: 3, CHF: 2, EUR: 2, GBP: 2, JPY: 0, USD: 2 } as const

export type Currency = keyof typeof currencies

export const currencyCodes = Object.keys(currencies) as [Currency, ...Currency[]]
