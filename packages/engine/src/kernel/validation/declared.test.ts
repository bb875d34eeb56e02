import { expect, expectTypeOf, test } from 'vitest'
import {
  anything,
  boolean,
  callback,
  choice,
  date,
  declareOptions,
  duration,
  integer,
  number,
  required,
  text,
} from './declared.js'

const check = declareOptions({
  name: required(text({ max: 5 })),
  note: text(),
  concurrency: integer({ min: 1, max: 10, default: 4 }),
  rate: number({ min: 0 }),
  quiet: boolean({ default: false }),
  lease: duration({ min: '1s', default: '30s' }),
  timeout: duration(),
  since: date,
  mode: choice(['on', 'off'], { default: 'on' }),
  done: callback<() => void>(),
  data: anything,
})

test('K-13 declared options are checked, and those that are left out have their defaults', () => {
  expect(check('run', { name: 'a', lease: '5s', timeout: 10 })).toEqual({
    name: 'a',
    note: undefined,
    concurrency: 4,
    rate: undefined,
    quiet: false,
    lease: 5_000,
    timeout: 10,
    since: undefined,
    mode: 'on',
    done: undefined,
    data: undefined,
  })
})

test.each([
  [{}, '`name` is required'],
  [{ name: 'too long' }, 'at most 5 characters'],
  [{ name: 'a', concurrency: 11 }, 'from 1 to 10'],
  [{ name: 'a', rate: -1 }, '0 or more'],
  [{ name: 'a', quiet: 1 }, 'true or false'],
  [{ name: 'a', lease: 1 }, '1 s or more'],
  [{ name: 'a', since: 'soon' }, 'a Date'],
  [{ name: 'a', mode: 'maybe' }, "'on', 'off'"],
  [{ name: 'a', done: 1 }, 'a function'],
  [{ name: 'a', nmae: 1 }, 'nmae'],
])('K-13 options that do not fit are refused: %j', (options, said) => {
  expect(() => check('run', options)).toThrow(said)
})

test('K-13 the values have the types that are declared', () => {
  const values = check('run', { name: 'a' })
  expectTypeOf(values.name).toEqualTypeOf<string>()
  expectTypeOf(values.note).toEqualTypeOf<string | undefined>()
  expectTypeOf(values.concurrency).toEqualTypeOf<number>()
  expectTypeOf(values.rate).toEqualTypeOf<number | undefined>()
  expectTypeOf(values.lease).toEqualTypeOf<number>()
  expectTypeOf(values.timeout).toEqualTypeOf<number | undefined>()
  expectTypeOf(values.mode).toEqualTypeOf<'on' | 'off'>()
  expectTypeOf(values.done).toEqualTypeOf<(() => void) | undefined>()
})
