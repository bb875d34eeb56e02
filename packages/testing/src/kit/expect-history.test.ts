import { expect, test } from 'vitest'
import { expectHistory } from './expect-history.js'

const history = ['CREATED', 'STEP book COMPLETED', 'WAIT approval STARTED', 'STEP submit COMPLETED', 'COMPLETED']

test.each([
  [history],
  [['…']],
  [['CREATED', '…', 'COMPLETED']],
  [['…', 'STEP book COMPLETED', '…', 'COMPLETED', '…']],
  [['CREATED', /^STEP book/, /^WAIT/, /COMPLETED$/, /COMPLETED$/]],
])('X-01 a history fits %j', (expected) => {
  expect(() => expectHistory(history, expected)).not.toThrow()
})

test.each([
  [[]],
  [['COMPLETED', '…']],
  [['…', 'STEP submit COMPLETED', '…', 'STEP book COMPLETED', '…']],
  [[...history, 'MORE']],
  [history.slice(1)],
])('X-01 a history does not fit %j', (expected) => {
  expect(() => expectHistory(history, expected)).toThrow('the history is not as expected')
})

test('X-01 the difference is shown line by line', () => {
  expect(() => expectHistory(history, ['CREATED', 'STEP book FAILED', '…', 'STEP submit COMPLETED', 'FAILED'])).toThrow(
    [
      'the history is not as expected (- expected, + happened)',
      '    CREATED',
      '  - STEP book FAILED',
      '    STEP book COMPLETED',
      '    WAIT approval STARTED',
      '    STEP submit COMPLETED',
      '  - FAILED',
      '  + COMPLETED',
    ].join('\n'),
  )
})
