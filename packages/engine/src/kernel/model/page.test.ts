import { expect, test } from 'vitest'
import { type Place, readCursor, toPage } from './page.js'

const place = (number: number): Place => ({ createdAt: new Date(number), id: `id-${number}` })
const same = (item: Place) => item

test('U-05 a page has a cursor where there are more, and the cursor says where the page ended', () => {
  const { items, cursor } = toPage([place(3), place(2), place(1)], 2, same)
  expect(items).toEqual([place(3), place(2)])
  expect(readCursor('list', cursor)).toEqual(place(2))
})

test.each([
  [[], 2],
  [[place(1)], 2],
  [[place(2), place(1)], 2],
])('U-05 the last page has no cursor (%#)', (found, limit) => {
  expect(toPage(found, limit, same)).toEqual({ items: found })
})

test('U-05 without a cursor a list begins with the newest', () => {
  expect(readCursor('list', undefined)).toBeUndefined()
})

test.each([
  [''],
  ['nonsense'],
  [7],
  [null],
  [Buffer.from('[1]').toString('base64url')],
  [Buffer.from('["a","b"]').toString('base64url')],
])('U-05 what is no cursor is refused: %j', (cursor) => {
  expect(() => readCursor('list', cursor)).toThrow(expect.objectContaining({ code: 'HF_INVALID_OPTION' }))
})
