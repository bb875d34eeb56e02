import { describe, expect, it } from 'vitest'
import { HoldfastError } from '../errors.js'
import { coded, codedError } from './coded.js'

const ofServer = (code: string, message: string) => Object.assign(new Error(message), { code, severity: 'ERROR' })

describe('K-14 every public call rejects with a code of the registry', () => {
  it.each([
    [ofServer('42P01', 'relation "x.command" does not exist'), 'HF_SCHEMA_DAMAGED'],
    [ofServer('3F000', 'schema "x" does not exist'), 'HF_SCHEMA_DAMAGED'],
    [ofServer('42883', 'function x.now() does not exist'), 'HF_SCHEMA_DAMAGED'],
    [ofServer('42501', 'permission denied for table command'), 'HF_NOT_PERMITTED'],
    [ofServer('23514', 'violates check constraint'), 'HF_DATABASE_ERROR'],
    [ofServer('40P01', 'deadlock detected'), 'HF_DATABASE_UNAVAILABLE'],
    [Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }), 'HF_OUTCOME_UNKNOWN'],
    [new Error('Query read timeout'), 'HF_OUTCOME_UNKNOWN'],
  ])('%s is %s, with itself as the cause', (error, code) => {
    expect(codedError(error, 'x', 'hf.send', 12)).toMatchObject({ code, cause: error })
  })

  it.each([
    new HoldfastError('HF_STOPPED', { what: 'x' }),
    Object.assign(new Error('my own'), { code: 'DECLINED' }),
    'a text',
  ])('%s passes as it is', (error) => {
    expect(codedError(error, 'x', 'hf.send', 12)).toBe(error)
  })

  it.each([new TypeError('x is not iterable'), new RangeError('Invalid array length')])(
    '%s is an argument that cannot be used, with itself as the cause',
    (error) => {
      expect(codedError(error, 'x', 'hf.send', 12)).toMatchObject({ code: 'HF_INVALID_ARGUMENT', cause: error })
    },
  )

  it('functions of objects within are coded too, at once and later; values stay as they are', async () => {
    const api = coded(
      {
        schema: 'x',
        inner: {
          async ask() {
            throw ofServer('42P01', 'relation does not exist')
          },
        },
        sum: (a: number, b: number) => a + b,
        refuse(): never {
          throw new TypeError('no')
        },
      },
      'x',
    )
    await expect(api.inner.ask()).rejects.toMatchObject({ code: 'HF_SCHEMA_DAMAGED' })
    expect(api.sum(1, 2)).toBe(3)
    expect(api.schema).toBe('x')
    expect(() => api.refuse()).toThrow(expect.objectContaining({ code: 'HF_INVALID_ARGUMENT' }))
  })
})
