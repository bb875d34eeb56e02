import { expect, test } from 'vitest'
import { createWatermarks } from './watermarks.js'

const answer = (marks: { type: string; mark: number }[]) => ({ items: [], marks, nextDueMs: null })

test('K-17 the first scan reads everything, the next begins at the mark', () => {
  const watermarks = createWatermarks()
  const first = watermarks.lanes(['a'], 0)
  expect(first).toEqual({ full: true, lanes: [{ type: 'a', from: null }] })
  watermarks.advance(answer([{ type: 'a', mark: 500 }]), { full: true, began: 0, ended: 10 })
  expect(watermarks.lanes(['a'], 11)).toEqual({ full: false, lanes: [{ type: 'a', from: 500 }] })
})

test('K-17 full scans take two percent of the time: cheap ones are frequent, expensive ones rare', () => {
  const cheap = createWatermarks()
  cheap.advance(answer([]), { full: true, began: 0, ended: 0.2 })
  expect(cheap.lanes(['a'], 5).full).toBe(false)
  expect(cheap.lanes(['a'], 11).full).toBe(true)
  const dear = createWatermarks()
  dear.advance(answer([]), { full: true, began: 0, ended: 80 })
  expect(dear.lanes(['a'], 3_900).full).toBe(false)
  expect(dear.lanes(['a'], 4_081).full).toBe(true)
})

test('K-17 a full scan happens at least every five seconds', () => {
  const watermarks = createWatermarks()
  watermarks.advance(answer([]), { full: true, began: 0, ended: 10_000 })
  expect(watermarks.lanes(['a'], 14_999).full).toBe(false)
  expect(watermarks.lanes(['a'], 15_000).full).toBe(true)
})

test('K-17 forgetting the marks makes the next scan a full one', () => {
  const watermarks = createWatermarks()
  watermarks.advance(answer([{ type: 'a', mark: 1 }]), { full: true, began: 0, ended: 100 })
  watermarks.forget()
  expect(watermarks.lanes(['a'], 101).full).toBe(true)
})

test('K-17 types take turns in being first, so none starves', () => {
  const watermarks = createWatermarks()
  const firsts = Array.from({ length: 6 }, () => watermarks.lanes(['a', 'b', 'c'], 0).lanes[0]?.type)
  expect(firsts.sort()).toEqual(['a', 'a', 'b', 'b', 'c', 'c'])
  expect(watermarks.lanes([], 0).lanes).toEqual([])
})
