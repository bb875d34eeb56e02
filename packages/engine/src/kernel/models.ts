/** The four models, as they are called in filters, records, logs and metrics. */
export const models = ['commands', 'processes', 'workflows', 'dispatch'] as const
export type Model = (typeof models)[number]
