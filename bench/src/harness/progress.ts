import type { WriteStream } from 'node:tty'

/** What happens, on standard error: results alone go to standard output. */
export interface Progress {
  /** Something worth keeping. */
  readonly line: (text: string) => void
  /** What goes on at this moment: on a terminal it gives way to what comes next, elsewhere it is not written. */
  readonly working: (text: string) => void
  /** Leaves a clean line behind. */
  readonly end: () => void
}

const CLEAR_LINE = '\r\x1b[2K'

export function createProgress(stream: Pick<WriteStream, 'write' | 'isTTY'>): Progress {
  let timer: NodeJS.Timeout | undefined

  function clear(): void {
    clearInterval(timer)
    if (stream.isTTY) stream.write(CLEAR_LINE)
  }

  return {
    line(text) {
      clear()
      stream.write(`${text}\n`)
    },
    working(text) {
      if (!stream.isTTY) return
      clear()
      const began = performance.now()
      const show = () => stream.write(`${CLEAR_LINE}${text} · ${Math.round((performance.now() - began) / 1000)} s`)
      show()
      timer = setInterval(show, 1_000).unref()
    },
    end: clear,
  }
}
