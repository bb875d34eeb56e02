import { describe, expect, test } from 'vitest'
import { readArguments, UsageError } from './arguments.js'
import { workloads } from './workloads/index.js'

const read = (line: string) => readArguments(line.split(' ').filter(Boolean), workloads)

describe('a command line', () => {
  test('has defaults for everything but the workload', () => {
    expect(read('loop')).toMatchObject({
      kind: 'run',
      json: false,
      plan: { rounds: 3, items: 200_000, options: {}, systems: { length: 4 } },
    })
  })

  test('narrows and sizes the run', () => {
    const command = read('loop --rounds 5 --items 10 --concurrency 7 --system holdfast --json')
    expect(command).toMatchObject({ json: true, plan: { rounds: 5, items: 10, options: { concurrency: 7 } } })
    expect(command.kind === 'run' && command.plan.systems.map(({ config }) => config)).toEqual([{ concurrency: 7 }])
  })

  test.each(['--help', '-h', 'nonsense --help'])('%s asks for help', (line) => {
    expect(read(line)).toEqual({ kind: 'help' })
  })
})

describe('a command line that makes no sense is answered with the usage', () => {
  test.each([
    ['', 'The workloads are: loop, commands-drain,'],
    ['drain', "There is no workload 'drain'. The workloads are: loop,"],
    ['loop other', 'One workload at a time, not also other.'],
    ['loop --round 3', 'The options are --rounds, --items,'],
    ['loop --items', 'The options are --rounds, --items,'],
    ['loop --system pgboss', 'The systems are: hand-batched SQL ('],
    ['loop --rounds 0', "--rounds is '0'. It must be a whole number above 0."],
    ['loop --items 1.5', "--items is '1.5'."],
    ['loop --concurrency many', "--concurrency is 'many'."],
  ])('%s', (line, message) => {
    expect(() => read(line)).toThrow(UsageError)
    expect(() => read(line)).toThrow(message)
  })
})
