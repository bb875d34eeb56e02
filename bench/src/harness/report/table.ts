import type { Result } from '../results.js'
import { figure } from './figure.js'
import { titleOf } from './title.js'

/** The results for people. */
export function table(results: readonly Result[], heading: string): string {
  const details = [...new Set(results.flatMap((result) => Object.keys(result.details)))]
  const rows = [headerOf(results, details), ...results.map((result) => cellsOf(result, details))]
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  const lines = rows.map((row) => row.map((cell, column) => aligned(cell, widths[column] ?? 0, column)).join('  '))
  const rule = widths.map((width) => '─'.repeat(width)).join('  ')
  return [heading, '', lines[0], rule, ...lines.slice(1), '', footnoteOf(results)].join('\n')
}

function headerOf([first]: readonly Result[], details: readonly string[]): string[] {
  return [
    'system',
    first?.unit ?? '',
    ...details,
    'ratio',
    'WAL B',
    'statements',
    'Node µs',
    'PostgreSQL µs',
    'peak MB',
  ]
}

function cellsOf(result: Result, details: readonly string[]): string[] {
  return [
    titleOf(result.system),
    figure(result.value),
    ...details.map((name) => figureOrNone(result.details[name])),
    fixed(result.ratio, 2),
    fixed(result.walBytesPerItem, 0),
    fixed(result.statementsPerItem, 4),
    fixed(result.nodeCpuPerItem, 1),
    fixed(result.postgresCpuPerItem, 1),
    fixed(result.peakRssMb, 0),
  ]
}

function footnoteOf(results: readonly Result[]): string {
  const [first] = results
  const rounds = first?.rounds ?? []
  const commits = rounds.map((round) => Math.round(round.yardstick).toLocaleString('en')).join(', ')
  const rivals = [...new Set(results.map((result) => result.comparedWith))].filter((rival) => rival !== null)
  const compared = rivals.length > 0 ? `ratio: to ${rivals.join('; ')}` : 'ratio: no peer or ceiling took part'
  const lower = first?.better === 'lower' ? ' · less is better' : ''
  return `medians of ${rounds.length} · costs per item · ${compared}${lower}\nyardstick, single-row commits/s by round: ${commits}`
}

function aligned(cell: string, width: number, column: number): string {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width)
}

function figureOrNone(value: number | undefined): string {
  return value === undefined ? '–' : figure(value)
}

function fixed(value: number | null, digits: number): string {
  return value === null ? '–' : value.toFixed(digits)
}
