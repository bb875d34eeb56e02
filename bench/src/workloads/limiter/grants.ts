import { type Holdfast, holdfast } from 'holdfast'
import type { Run, System } from '../../harness/workload.js'
import { version } from '../../libraries/holdfast.js'
import { version as flexibleVersion, openFlexible } from '../../libraries/rate-limiter-flexible.js'

const KEY = 'hot'
/** The most that can be configured: never a reason to wait. */
const UNLIMITED = 1e9

/** So many callers, each of which takes one grant after the other. */
async function callAll(callers: number, items: number, grant: (caller: number) => Promise<unknown>): Promise<void> {
  let left = items
  async function call(caller: number): Promise<void> {
    while (left > 0) {
      left -= 1
      await grant(caller)
    }
  }
  await Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)))
}

export async function prepareLimit(
  connectionString: string,
  key: string,
  limit: { readonly ticketsPerSecond: number; readonly burst: number },
): Promise<void> {
  const hf = await holdfast({ connectionString })
  await hf.limits.set(key, limit, { actor: 'bench', reason: 'to be measured' })
  await hf.close()
}

const common = {
  anythingLeft: 'select false',
  prepare: ({ connectionString }: { readonly connectionString: string }) =>
    prepareLimit(connectionString, KEY, { ticketsPerSecond: UNLIMITED, burst: UNLIMITED }),
}

/** Callers of one process share statements; `share` says how many of the items are gone through. */
export function holdfastGrants({ callers, share }: { readonly callers: number; readonly share: number }): System {
  return {
    ...common,
    name: 'holdfast',
    version,
    role: 'holdfast',
    config: { callers },
    share,
    open: async (task) => runOf([await holdfast({ connectionString: task.connectionString })], callers, task.items),
  }
}

/** A statement for every grant: callers that share nothing, as if each were alone in its process. */
export function uncoalescedGrants({ callers, share }: { readonly callers: number; readonly share: number }): System {
  return {
    ...common,
    name: 'holdfast uncoalesced',
    version,
    role: 'holdfast',
    config: { callers },
    share,
    open: async (task) => {
      const alone = { connectionString: task.connectionString, migrate: false, poolSize: 1 }
      const installations = await Promise.all(Array.from({ length: callers }, () => holdfast(alone)))
      return runOf(installations, callers, task.items)
    },
  }
}

function runOf(installations: readonly Holdfast[], callers: number, items: number): Run {
  return {
    work: () =>
      callAll(callers, items, async (caller) => installations[caller % installations.length]?.limits.acquire(KEY)),
    close: async () => {
      await Promise.all(installations.map((hf) => hf.close()))
    },
  }
}

/** Its store counts within fixed windows; refused calls would have to ask again. */
export function flexibleGrants(config: {
  readonly callers: number
  readonly connections: number
  readonly share: number
}): System {
  const { callers, connections, share } = config
  return {
    name: 'rate-limiter-flexible',
    version: flexibleVersion,
    role: 'peer',
    config: { callers, connections },
    share,
    anythingLeft: 'select false',
    prepare: async ({ connectionString }) => {
      await (await openFlexible(connectionString, { points: UNLIMITED, duration: 3_600 }, 1)).close()
    },
    open: async ({ connectionString, items }) => {
      const limiter = await openFlexible(connectionString, { points: UNLIMITED, duration: 3_600 }, connections)
      return { work: () => callAll(callers, items, () => limiter.consume(KEY)), close: () => limiter.close() }
    },
  }
}
