import { readFileSync } from 'node:fs'

const drawn = readFileSync(new URL('../states.ts', import.meta.url), 'utf8')

/** The arrows of the two machines as states.ts draws them: `RUNNING --> DLQ`, without what stands beside them. */
function arrowsOf(statuses: string): ReadonlySet<string> {
  const figure =
    drawn
      .slice(0, drawn.indexOf(`export const ${statuses}`))
      .split('stateDiagram-v2')
      .at(-1) ?? ''
  return new Set([...figure.matchAll(/(\S+ --> \w+)/g)].map(([, arrow = '']) => arrow))
}

const instanceArrows = arrowsOf('instanceStatuses')
const stepArrows = arrowsOf('stepStatuses')

/** Whether the figure has a way of at most three arrows: one decision may walk several, as in start, fail, undo. */
function leads(arrows: ReadonlySet<string>, from: string, to: string, most = 3): boolean {
  if (arrows.has(`${from} --> ${to}`)) return true
  const steps = [...arrows]
    .filter((arrow) => arrow.startsWith(`${from} --> `))
    .map((arrow) => arrow.split(' --> ')[1] ?? '')
  return most > 1 && steps.some((between) => leads(arrows, between, to, most - 1))
}

function remembered(answer: (from: string, to: string) => boolean): (from: string, to: string) => boolean {
  const known = new Map<string, boolean>()
  return (from, to) => {
    const way = `${from} ${to}`
    const found = known.get(way) ?? answer(from, to)
    known.set(way, found)
    return found
  }
}

export const instanceMayGo = remembered((from, to) => leads(instanceArrows, from, to))
export const stepMayGo = remembered((from, to) => leads(stepArrows, from, to, 2))
