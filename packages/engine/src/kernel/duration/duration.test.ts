import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatDuration, parseDuration, toMilliseconds } from './duration.js'

describe('toMilliseconds', () => {
  it.each([
    [0, 0],
    [1500, 1500],
    [0.6, 1],
    ['250ms', 250],
    ['5s', 5000],
    ['1.5s', 1500],
    ['0.57s', 570],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
    ['PT1H', 3_600_000],
    ['PT0.5S', 500],
    ['PT0,5S', 500],
    ['P1D', 86_400_000],
    ['P2W', 1_209_600_000],
    ['P1DT2H3M4.5S', 93_784_500],
    ['36500d', 3_153_600_000_000],
  ] as const)('reads %s as %d ms', (value, milliseconds) => {
    expect(toMilliseconds(value)).toBe(milliseconds)
  })

  it.each([
    [Number.NaN, 'NaN is not a duration'],
    [-1, '-1 is not a duration: it is negative'],
    [Number.POSITIVE_INFINITY, 'Infinity is not a duration: it is longer than 100 years'],
    ['36501d', "'36501d' is not a duration: it is longer than 100 years"],
    ['-5s', "'-5s' is not a duration: it is negative"],
    ['-PT5S', "'-PT5S' is not a duration: it is negative"],
    ['PT-5S', "'PT-5S' is not a duration: it is negative"],
    ['P1M', "'P1M' is not a duration: months and years differ in length; give days or hours"],
    ['P1Y2DT3H', "'P1Y2DT3H' is not a duration: months and years differ in length; give days or hours"],
    ['P', "'P' is not a duration"],
    ['PT', "'PT' is not a duration"],
    ['P1DT', "'P1DT' is not a duration"],
    ['5', "'5' is not a duration"],
    ['5 s', "'5 s' is not a duration"],
    ['5S', "'5S' is not a duration"],
    ['1e3s', "'1e3s' is not a duration"],
    ['5s\n', "'5s\n' is not a duration"],
    ['', "'' is not a duration"],
    ['soon', "'soon' is not a duration"],
    [null, 'null is not a duration'],
    [undefined, 'undefined is not a duration'],
    [5n, '5n is not a duration'],
    [{ seconds: 5 }, 'an object is not a duration'],
  ])('refuses %s', (value, message) => {
    expect(() => parseDuration(value)).toThrow(expect.objectContaining({ code: 'HF_INVALID_DURATION', message }))
  })

  it('names the option that has the duration', () => {
    expect(() => parseDuration('5x', 'startWorker: option `lease`')).toThrow(
      "startWorker: option `lease`: '5x' is not a duration",
    )
  })

  it('reads every whole number of every unit exactly', () => {
    const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
    fc.assert(
      fc.property(fc.constantFrom('ms', 's', 'm', 'h', 'd'), fc.nat({ max: 36_500 }), (unit, count) => {
        expect(toMilliseconds(`${count}${unit}`)).toBe(count * units[unit])
      }),
    )
  })

  it('reads milliseconds written as fractions of a second exactly, in both notations', () => {
    fc.assert(
      fc.property(fc.nat({ max: 3_153_600_000_000 }), (milliseconds) => {
        const seconds = `${Math.floor(milliseconds / 1000)}.${String(milliseconds % 1000).padStart(3, '0')}`
        expect(parseDuration(`${seconds}s`)).toBe(milliseconds)
        expect(parseDuration(`PT${seconds}S`)).toBe(milliseconds)
      }),
    )
  })

  it('gives a whole number or refuses, whatever the text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^P[0-9WDTHMSY.,-]{0,8}$/), fc.double()), (value) => {
        try {
          expect(Number.isSafeInteger(parseDuration(value))).toBe(true)
        } catch (error) {
          expect(error).toMatchObject({ code: 'HF_INVALID_DURATION' })
        }
      }),
    )
  })
})

describe('formatDuration', () => {
  it.each([
    [0, '0 ms'],
    [1, '1 ms'],
    [1500, '1 s 500 ms'],
    [60_000, '1 min'],
    [5_400_000, '1 h 30 min'],
    [90_061_001, '1 d 1 h 1 min 1 s 1 ms'],
    [-5, '-5 ms'],
    [Number.NaN, 'NaN ms'],
  ])('%d → %s', (milliseconds, text) => {
    expect(formatDuration(milliseconds)).toBe(text)
  })

  it('loses nothing', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3_153_600_000_000 }), (milliseconds) => {
        const parts = formatDuration(milliseconds)
          .replaceAll(' min', 'm')
          .matchAll(/(\d+) ?(ms|d|h|m|s)/g)
        const sum = [...parts].reduce((total, [, count, unit]) => total + parseDuration(`${count}${unit}`), 0)
        expect(sum).toBe(milliseconds)
      }),
    )
  })
})
