import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { classifyFailure } from './classify.js'
import { BusinessError } from './failure-errors.js'
import { fingerprint, messageShape } from './fingerprint.js'

describe('messageShape', () => {
  it.each([
    ['payment 4711 was refused', 'payment <n> was refused'],
    ['PAY-123 is -5.25 EUR over 1,000.00', 'PAY-<n> is -<n> EUR over <n>'],
    ['order 0190163d-8694-739b-aea5-966c26f8ad91 not found', 'order <id> not found'],
    ['name \'Smith\' or "Jones" or `Brown` is taken', 'name <text> or <text> or <text> is taken'],
    ["can't reach Smith's account", "can't reach Smith's account"],
    ['due at 2030-01-31T12:00:00.123Z, seen 2030-02-01', 'due at <date>, seen <date>'],
    ['mail to jane.doe+x@example.co.uk bounced', 'mail to <email> bounced'],
    ['bad pointer 0xDEADBEEF, digest 9f86d081884c7d65', 'bad pointer <hex>, digest <hex>'],
    ['the facade defaced decade', 'the facade defaced decade'],
    ['connect ECONNREFUSED 127.0.0.1:5432', 'connect ECONNREFUSED <n>:<n>'],
    ['two\n   lines\tof it ', 'two lines of it'],
    ['', ''],
  ])('%j → %j', (message, shape) => {
    expect(messageShape(message)).toBe(shape)
  })

  it('has nothing left to replace', () => {
    fc.assert(
      fc.property(fc.string(), fc.uuid(), fc.integer(), (text, id, number) => {
        const shape = messageShape(`${text} ${id} ${number}`)
        expect(shape).not.toMatch(/\d/)
      }),
    )
  })

  it('takes no longer for hostile text', () => {
    for (const unit of ['a', '"', "'", "'a", '1-', 'a@', 'a.', '0', '2030-01-']) {
      expect(messageShape(unit.repeat(100_000)).length).toBeLessThan(5000)
    }
  })
})

describe('fingerprint', () => {
  const of = (message: string, code?: string) =>
    classifyFailure(new BusinessError(message, code === undefined ? {} : { code }), { unknown: 'transient' })
      .fingerprint

  it('K-08 is the same for the same code and shape', () => {
    expect(of('payment 1 of "Smith" refused')).toBe(of('payment 22 of "Jones" refused'))
  })

  it('K-08 differs by code and by shape', () => {
    expect(new Set([of('payment 1'), of('payment 1', 'OTHER'), of('refund 1')]).size).toBe(3)
  })

  it('K-08 is stored, so it must never change for the same failure', () => {
    expect(fingerprint('INTERNAL_ERROR', 'payment <n> was refused')).toMatchInlineSnapshot(`"ebec6347963c6cf1"`)
  })
})
