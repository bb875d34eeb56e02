import { fillHoldfast, Noop, openHoldfast, version } from '../../libraries/holdfast.js'
import type { WaitingLibrary } from './latency-system.js'

export const holdfastLatency: WaitingLibrary = {
  name: 'holdfast',
  version,
  role: 'holdfast',
  config: { concurrency: 50 },
  install: (connectionString) => fillHoldfast(connectionString, 0),
  async open(connectionString, started) {
    const hf = await openHoldfast(connectionString)
    hf.handle(Noop, async () => {
      started()
      return { ok: true }
    })
    await hf.run({ concurrency: 50 })
    return { send: (payload) => hf.send(Noop, payload), close: () => hf.close() }
  },
}
