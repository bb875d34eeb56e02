import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type Codec, createCodec, roundTrip } from './codec.js'

/** Encrypts JSON and notes together: the notes would tell the names of the fields. */
function encrypting(inner: Codec, key: Buffer): Codec {
  return {
    encode(value, options) {
      const iv = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', key, iv)
      const sealed = [cipher.update(JSON.stringify(inner.encode(value, options))), cipher.final()]
      return {
        json: JSON.stringify(Buffer.concat([iv, cipher.getAuthTag(), ...sealed]).toString('base64')),
        notes: null,
      }
    },
    decode({ json }) {
      const sealed = Buffer.from(String(json), 'base64')
      const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12))
      decipher.setAuthTag(sealed.subarray(12, 28))
      const opened = Buffer.concat([decipher.update(sealed.subarray(28)), decipher.final()])
      const stored = JSON.parse(opened.toString())
      return inner.decode({ json: JSON.parse(stored.json), notes: stored.notes })
    },
  }
}

/** Keeps what nobody may read out of the database altogether. */
function redacting(inner: Codec, secret: string): Codec {
  return {
    encode(value, options) {
      const { json, notes } = inner.encode(value, options)
      const redacted = JSON.stringify(JSON.parse(json, (key, part: unknown) => (key === secret ? '[redacted]' : part)))
      return { json: redacted, notes }
    },
    decode: (stored) => inner.decode(stored),
  }
}

const payment = { iban: 'DE89 3704 0044 0532 0130 00', due: new Date(0), lines: new Map([['a', 1n]]) }

describe('K-10 a custom codec', () => {
  it('can encrypt: nothing is readable in the database, and everything comes back', () => {
    const codec = encrypting(createCodec(), randomBytes(32))
    const { json, notes } = codec.encode(payment)
    expect(json).not.toMatch(/DE89|iban|due/)
    expect(notes).toBeNull()
    expect(roundTrip(codec, payment)).toEqual(payment)
  })

  it('can encrypt: with another key nothing comes back', () => {
    const { json, notes } = encrypting(createCodec(), randomBytes(32)).encode(payment)
    const other = encrypting(createCodec(), randomBytes(32))
    expect(() => other.decode({ json: JSON.parse(json), notes })).toThrow(/authenticate/)
  })

  it('can encrypt: what cannot be stored is still refused with its path', () => {
    const codec = encrypting(createCodec(), randomBytes(32))
    expect(() => codec.encode({ a: () => 1 }, { at: 'data' })).toThrow('data.a cannot be stored: it is a function')
  })

  it('can redact', () => {
    const codec = redacting(createCodec(), 'iban')
    expect(codec.encode(payment).json).not.toContain('DE89')
    expect(roundTrip(codec, payment)).toEqual({ ...payment, iban: '[redacted]' })
  })
})
