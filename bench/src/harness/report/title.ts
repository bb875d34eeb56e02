import type { System } from '../workload.js'

/**
 * A system and what it is configured to, in one line. Two systems of one workload differ in it.
 *
 * @example
 * titleOf({ name: 'holdfast loop', config: { concurrency: 50 } })   // 'holdfast loop (concurrency 50)'
 */
export function titleOf({ name, config }: Pick<System, 'name' | 'config'>): string {
  const settings = Object.entries(config).map(([setting, value]) => `${setting} ${value}`)
  return settings.length === 0 ? name : `${name} (${settings.join(', ')})`
}
