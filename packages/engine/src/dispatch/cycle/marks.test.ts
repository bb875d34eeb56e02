import { expect, test } from 'vitest'
import { createMarks } from './marks.js'

const mark = { due: '2026-03-02 16:00:00+00', seq: '500' }

test('D-11 the first scan reads everything, the next begins where the last one ended', () => {
  const marks = createMarks()
  expect(marks.from(0)).toBeUndefined()
  marks.learned(mark, { full: true, began: 0, ended: 10 })
  expect(marks.from(11)).toEqual(mark)
  const next = { ...mark, seq: '1000' }
  marks.learned(next, { full: false, began: 11, ended: 20 })
  expect(marks.from(21)).toEqual(next)
})

test('D-11 a scan that found nothing leaves the mark unchanged', () => {
  const marks = createMarks()
  marks.learned(mark, { full: true, began: 0, ended: 10 })
  marks.learned(undefined, { full: false, began: 11, ended: 12 })
  expect(marks.from(13)).toEqual(mark)
})

test('D-11 a full scan happens at least every five seconds; the more it costs, the rarer it is until then', () => {
  const cheap = createMarks()
  cheap.learned(mark, { full: true, began: 0, ended: 1 })
  expect(cheap.from(50)).toEqual(mark)
  expect(cheap.from(52)).toBeUndefined()
  const dear = createMarks()
  dear.learned(mark, { full: true, began: 0, ended: 10_000 })
  expect(dear.from(14_999)).toEqual(mark)
  expect(dear.from(15_000)).toBeUndefined()
})
