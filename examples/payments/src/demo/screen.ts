import { drawScene, type Scene, sceneLine } from './picture.js'

/** Where the demo tells what happens: a picture that is drawn anew in a terminal, plain lines anywhere else. */
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
      // Nothing new is not worth a line.
      if (news !== last) say(line)
      last = news
    },
    leave() {
      drawn = 0
    },
  }
}
