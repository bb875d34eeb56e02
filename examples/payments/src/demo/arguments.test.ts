import { expect, test } from 'vitest'
import { readArguments } from './arguments.js'

test('the command line of the demo', () => {
  expect(readArguments([])).toEqual({ payments: 300, seed: '42', chaos: false, once: false, port: 4180, workers: 2 })
  expect(readArguments(['--payments', '50', '--seed=a', '--chaos', '--once', '--port', '0', '--workers', '3'])).toEqual(
    {
      payments: 50,
      seed: 'a',
      chaos: true,
      once: true,
      port: 0,
      workers: 3,
    },
  )
  expect(readArguments(['--help', '--once'])).toBe('help')
})

test.each([
  [['--payments', 'many'], /--payments must be a whole number from 1 to 100000, not "many"/],
  [['--payments', '0'], /--payments/],
  [['--port', '-1'], /port/],
  [['--colour'], /--colour/],
  [['surplus'], /surplus/],
])('%j is refused', (args, problem) => {
  expect(readArguments(args)).toEqual({ problem: expect.stringMatching(problem) })
})
