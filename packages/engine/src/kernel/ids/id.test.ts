import { describe, expect, it } from 'vitest'
import { isId, newId, parseId } from './id.js'

const v7 = '0190163d-8694-739b-aea5-966c26f8ad91'

describe('ids', () => {
  it('are UUIDs of version 7, each later than the one before', () => {
    const ids = Array.from({ length: 1000 }, newId)
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect([...new Set(ids)].sort()).toEqual(ids)
  })

  it.each([
    [v7, true],
    [v7.toUpperCase(), true],
    ['f81d4fae-7dec-11d0-a765-00a0c91e6bf6', true],
    ['00000000-0000-0000-0000-000000000000', true],
    ['ffffffff-ffff-ffff-ffff-ffffffffffff', true],
    [v7.replaceAll('-', ''), false],
    [`{${v7}}`, false],
    [`${v7}\n`, false],
    [`${v7}0`, false],
    [v7.replace('0', 'g'), false],
    ['PAY-123', false],
    ['', false],
    [undefined, false],
    [[v7], false],
  ])('isId(%j) is %s', (value, expected) => {
    expect(isId(value)).toBe(expected)
  })

  it('are spelled in lower case', () => {
    expect(parseId('get', v7.toUpperCase())).toBe(v7)
  })

  it('are refused when they are none', () => {
    expect(() => parseId('send: id', 'PAY-123')).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_ID', message: "send: id: 'PAY-123' is not an id" }),
    )
  })
})
