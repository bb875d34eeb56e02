import { expect, test } from 'vitest'
import { declareOptions } from '../validation/declared.js'
import { checkResultOptions, listFilter, page, uuid } from './options.js'
import { toPage } from './page.js'

const check = declareOptions({ ...listFilter, ...page, batch: uuid })

test('U-05 lists of all models take the same filters', () => {
  const place = { createdAt: new Date(7), id: 'b' }
  const { cursor } = toPage([place, place], 1, (item) => item)
  const since = new Date(1)
  expect(check('commands.list', { domain: 'risk', since, cursor })).toEqual({
    domain: 'risk',
    type: undefined,
    key: undefined,
    since,
    until: undefined,
    cursor: place,
    limit: 100,
    batch: undefined,
  })
})

test.each([
  [{ limit: 0 }, 'limit'],
  [{ cursor: 'x' }, 'cursor'],
  [{ since: 'soon' }, 'since'],
  [{ batch: 'x' }, 'batch'],
  [{ domian: 'risk' }, 'domain'],
])('U-05 a filter that does not fit is refused: %j', (filter, said) => {
  expect(() => check('commands.list', filter)).toThrow(said)
})

test('U-04 a result is waited for 30 s unless the caller says otherwise', () => {
  expect(checkResultOptions('result', undefined)).toEqual({ timeout: 30_000 })
  expect(checkResultOptions('result', { timeout: '1s' })).toEqual({ timeout: 1_000 })
})
