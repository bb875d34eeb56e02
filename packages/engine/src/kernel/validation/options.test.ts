import { describe, expect, expectTypeOf, it } from 'vitest'
import { shown } from './describe.js'
import {
  booleanOption,
  checkOptions,
  choiceOption,
  dateOption,
  durationOption,
  integerOption,
  numberOption,
  textOption,
} from './options.js'

const known = ['concurrency', 'leaseDuration', 'pollInterval', 'id'] as const

describe('checkOptions', () => {
  it.each([
    ['concurency', 'concurrency'],
    ['concurrecny', 'concurrency'],
    ['Concurrency', 'concurrency'],
    ['leaseduration', 'leaseDuration'],
    ['pollIntervall', 'pollInterval'],
    ['di', 'id'],
  ])('K-13 refuses `%s` and names `%s`', (option, nearest) => {
    expect(() => checkOptions('startWorker', { [option]: 1 }, known)).toThrow(
      expect.objectContaining({
        code: 'HF_UNKNOWN_OPTION',
        message: `startWorker: unknown option \`${option}\`; did you mean \`${nearest}\`?`,
      }),
    )
  })

  it.each(['banana', 'x'.repeat(100_000), 'lease', ''])(
    'K-13 refuses %j without a guess when nothing is near',
    (option) => {
      expect(() => checkOptions('startWorker', { [option]: 1 }, known)).toThrow(
        expect.objectContaining({ details: { where: 'startWorker', option: shown(option) } }),
      )
    },
  )

  it('K-13 refuses a name that every object inherits', () => {
    expect(() => checkOptions('x', JSON.parse('{"__proto__": 1}'), known)).toThrow('unknown option `__proto__`')
    expect(() => checkOptions('x', { constructor: 1 }, known)).toThrow('unknown option `constructor`')
  })

  it.each([
    [null, 'null'],
    [5, '5'],
    ['text', "'text'"],
    [[], 'an array'],
    [() => 1, 'a function'],
    [Promise.resolve({ concurrency: 1 }), 'an instance of Promise'],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
  ])('refuses %j as options', (options, shown) => {
    expect(() => checkOptions('startWorker', options, known)).toThrow(
      `startWorker: option \`options\` must be an object, not ${shown}`,
    )
  })

  it('returns the options, typed by their names', () => {
    const given = checkOptions('startWorker', { concurrency: 3 }, known)
    expect(given.concurrency).toBe(3)
    expectTypeOf(given).toEqualTypeOf<Partial<Record<(typeof known)[number], unknown>>>()
    expect(checkOptions('startWorker', undefined, known)).toEqual({})
  })
})

const date = new Date('2030-01-31T12:00:00Z')

describe('one option', () => {
  it.each<[string, () => unknown, unknown]>([
    ['integer', () => integerOption('f', 'o', 3, { min: 1, max: 3 }), 3],
    ['integer by default', () => integerOption('f', 'o', undefined, { default: 4 }), 4],
    ['integer left out', () => integerOption('f', 'o', undefined, { default: undefined }), undefined],
    ['number', () => numberOption('f', 'o', 0.5, { min: 0.5, max: 3 }), 0.5],
    ['number left out', () => numberOption('f', 'o', undefined, { default: undefined }), undefined],
    ['duration', () => durationOption('f', 'o', '5s', { min: '1s', max: '5s' }), 5000],
    ['duration by default', () => durationOption('f', 'o', undefined, { default: '30s' }), 30_000],
    ['duration left out', () => durationOption('f', 'o', undefined, { default: undefined }), undefined],
    ['boolean', () => booleanOption('f', 'o', false, { default: true }), false],
    ['boolean by default', () => booleanOption('f', 'o', undefined, { default: true }), true],
    ['text', () => textOption('f', 'o', 'abc', { max: 3 }), 'abc'],
    ['text by default', () => textOption('f', 'o', undefined, { default: 'abc' }), 'abc'],
    ['choice', () => choiceOption('f', 'o', 'off', ['auto', 'off']), 'off'],
    ['choice by default', () => choiceOption('f', 'o', undefined, ['auto', 'off'], { default: 'auto' }), 'auto'],
    ['date', () => dateOption('f', 'o', date), date],
    ['date as text', () => dateOption('f', 'o', '2030-01-31T13:00:00+01:00'), date],
    ['date left out', () => dateOption('f', 'o', undefined, { default: undefined }), undefined],
  ])('accepts a %s', (_, check, expected) => {
    expect(check()).toEqual(expected)
  })

  it.each<[string, () => unknown, string]>([
    ['a fraction', () => integerOption('f', 'o', 1.5), 'must be a whole number, not 1.5'],
    ['a numeral', () => integerOption('f', 'o', '3'), "must be a whole number, not '3'"],
    ['an unsafe integer', () => integerOption('f', 'o', 2 ** 53), 'must be a whole number, not 9007199254740992'],
    ['null', () => integerOption('f', 'o', null, { default: 1 }), 'must be a whole number, not null'],
    ['no number', () => numberOption('f', 'o', Number.NaN), 'must be a number, not NaN'],
    ['infinity', () => numberOption('f', 'o', Infinity), 'must be a number, not Infinity'],
    ['a number out of range', () => numberOption('f', 'o', 0, { min: 0.1 }), 'must be 0.1 or more, not 0'],
    ['too little', () => integerOption('f', 'o', -1, { min: 1 }), 'must be 1 or more, not -1'],
    ['too much', () => integerOption('f', 'o', 9, { max: 8 }), 'must be 8 or less, not 9'],
    ['out of range', () => integerOption('f', 'o', 0, { min: 1, max: 8 }), 'must be from 1 to 8, not 0'],
    ['nothing', () => integerOption('f', 'o', undefined, { min: 1 }), 'is required'],
    ['nothing at all', () => durationOption('f', 'o', undefined), 'is required'],
    ['too short', () => durationOption('f', 'o', 5, { min: '1s' }), 'must be 1 s or more, not 5 ms'],
    ['a truthy text', () => booleanOption('f', 'o', 'false'), "must be true or false, not 'false'"],
    ['an empty text', () => textOption('f', 'o', ''), 'must not be empty'],
    ['a long text', () => textOption('f', 'o', 'abcd', { max: 3 }), 'must have at most 3 characters, not 4'],
    ['no text', () => textOption('f', 'o', 5), 'must be a text, not 5'],
    ['no choice', () => choiceOption('f', 'o', 'on', ['auto', 'off']), "must be one of 'auto', 'off', not 'on'"],
    ['an invalid date', () => dateOption('f', 'o', new Date(Number.NaN)), 'not an invalid Date'],
    ['a local time', () => dateOption('f', 'o', '2030-01-31T12:00'), "not '2030-01-31T12:00'"],
    ['month 13', () => dateOption('f', 'o', '2030-13-01T12:00:00Z'), "not '2030-13-01T12:00:00Z'"],
    ['a number as date', () => dateOption('f', 'o', 0), 'must be a Date or a text such as'],
  ])('refuses %s', (_, check, problem) => {
    expect(check).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_OPTION', message: expect.stringContaining(problem) }),
    )
    expect(check).toThrow(/^f: option `o` /)
  })

  it('names the option whose duration is none', () => {
    expect(() => durationOption('startWorker', 'lease', '5x')).toThrow(
      expect.objectContaining({
        code: 'HF_INVALID_DURATION',
        message: "startWorker: option `lease`: '5x' is not a duration",
      }),
    )
  })

  it('has the type of its allowed values', () => {
    expectTypeOf(integerOption('f', 'o', 1)).toEqualTypeOf<number>()
    expectTypeOf(integerOption('f', 'o', 1, { default: undefined })).toEqualTypeOf<number | undefined>()
    expectTypeOf(durationOption('f', 'o', 1, { default: '1s' })).toEqualTypeOf<number>()
    expectTypeOf(durationOption('f', 'o', 1, { default: undefined })).toEqualTypeOf<number | undefined>()
    expectTypeOf(choiceOption('f', 'o', 'off', ['auto', 'off'])).toEqualTypeOf<'auto' | 'off'>()
  })
})
