import { expect, test } from 'vitest'
import { BULK, chunksOf } from './payload.js'

test('chunks contain every index once, and all but the last are full', () => {
  const chunks = [...chunksOf(BULK + 3)]
  expect(chunks.map((chunk) => chunk.length)).toEqual([BULK, 3])
  expect(chunks.flat().map(({ place }) => place)).toEqual(Array.from({ length: BULK + 3 }, (_, place) => place))
})
