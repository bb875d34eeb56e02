import { fillHoldfast, Noop, openHoldfast, version } from '../../libraries/holdfast.js'
import type { SendingLibrary } from './sender.js'

/** Three rows per command: its message, its status, its SENT audit. Sends at the same moment share a commit and a NOTIFY. */
export const holdfastSend: SendingLibrary = {
  name: 'holdfast',
  version,
  role: 'holdfast',
  config: {},
  install: (connectionString) => fillHoldfast(connectionString, 0),
  async open(connectionString) {
    const hf = await openHoldfast(connectionString)
    return {
      one: (payload) => hf.send(Noop, payload),
      bulk: (payloads) =>
        hf.sendMany(
          Noop,
          payloads.map((data) => ({ data })),
        ),
      close: () => hf.close(),
    }
  },
}
