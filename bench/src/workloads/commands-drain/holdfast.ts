import { anythingLeft, fillHoldfast, Noop, openHoldfast, version } from '../../libraries/holdfast.js'
import type { DrainingLibrary } from './drainer.js'

/** Status, result and two audit rows (RECEIVED, COMPLETED) for every command. */
export function holdfastCommands(config: { readonly concurrency: number }): DrainingLibrary {
  return {
    name: 'holdfast',
    version,
    role: 'holdfast',
    config,
    anythingLeft,
    prepare: ({ connectionString, items }) => fillHoldfast(connectionString, items),
    async open({ connectionString }, handled) {
      const hf = await openHoldfast(connectionString)
      hf.handle(Noop, async () => {
        handled(1)
        return { ok: true }
      })
      return {
        async start() {
          await hf.run({ concurrency: config.concurrency })
        },
        close: () => hf.close(),
      }
    },
  }
}
