import type { BatchProgress } from '../submission/progress.js'
import type { Snapshot, Window } from './snapshot.js'

export interface Scene {
  readonly snapshot: Snapshot
  readonly seconds: number
  /** Payments that ended per second, lately. */
  readonly rate: number
  readonly url: string
  readonly workers: string
}

/** The live view, line by line. */
export function drawScene({ snapshot, seconds, rate, url, workers }: Scene, width: number): string[] {
  const { payments, total, ended, waiting, batches, window } = snapshot
  return [
    `Holdfast payments   ${url}   ${workers}`,
    `${seconds} s   ${ended} of ${total} settled   ${rate.toFixed(0)}/s   ${countsOf(payments)}`,
    '',
    ...batches.map((batch) => progressLine(batch)),
    '',
    ...(window ? [`window        ${windowLine(window)}`] : []),
    `waiting for   ${waiting.map(({ who, n }) => `${who}: ${n}`).join('   ') || 'nobody'}`,
  ].map((line) => line.slice(0, Math.max(width - 1, 20)))
}

/** The same in one line, where there is no terminal. */
export function sceneLine({ snapshot, seconds, rate }: Scene): string {
  const { payments, total, ended, waiting, window } = snapshot
  const waits = waiting.map(({ who, n }) => `${who} ${n}`).join(', ')
  const counts = countsOf(payments)
  const released = window ? `; window: ${windowLine(window)}` : ''
  return `${seconds} s: ${ended} of ${total} settled, ${rate.toFixed(0)}/s (${counts})${released}${waits ? `; waiting for ${waits}` : ''}`
}

const countsOf = (payments: Snapshot['payments']): string =>
  Object.entries(payments)
    .map(([status, n]) => `${n} ${status}`)
    .join(', ')

function windowLine({ enabled, ready, dispatched, completed, failed, ...rate }: Window): string {
  const measured = rate.measuredPerSecond === null ? '' : ` (${rate.measuredPerSecond.toFixed(0)}/s in the last minute)`
  const speed = enabled ? `at ${rate.configuredPerSecond.toFixed(0)}/s${measured}` : 'SWITCHED OFF'
  const counts = `${ready} ready, ${dispatched} dispatched, ${completed} completed, ${failed} failed`
  return ready > 0 ? `${counts}, ${speed}` : counts
}

const BAR = 30

function progressLine({ name, size, ended, payments }: BatchProgress): string {
  const share = size === 0 ? 1 : ended / size
  const full = Math.round(share * BAR)
  const bar = `${'█'.repeat(full)}${'░'.repeat(BAR - full)}`
  return `${name.padEnd(14).slice(0, 14)} ${bar} ${String(Math.floor(share * 100)).padStart(3)} %   ${countsOf(payments)}`
}
