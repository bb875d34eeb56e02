import { drawScene, type Scene, sceneLine } from './picture.js'

/** The output of the demo: a picture that is redrawn in a terminal, plain lines anywhere else. */
export interface Screen {
  /** A line that stays. */
  say(line?: string): void
  show(scene: Scene): void
  /** Leaves the last picture as it is; lines follow below. */
  leave(): void
}

type Output = Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'>

export function createScreen(output: Output): Screen {
  let drawn = 0
  let last = ''
  const erase = () => (drawn > 0 ? `\u001b[${drawn}A\u001b[0J` : '')

  function say(line = ''): void {
    output.write(`${erase()}${line}\n`)
    drawn = 0
  }
  return {
    say,
    show(scene) {
      if (output.isTTY) {
        const lines = drawScene(scene, output.columns || 80)
        output.write(`${erase()}${lines.join('\n')}\n`)
        drawn = lines.length
        return
      }
      const line = sceneLine(scene)
      const news = line.slice(line.indexOf(':'))
      // No line if nothing has changed.
      if (news !== last) say(line)
      last = news
    },
    leave() {
      drawn = 0
    },
  }
}
