import { setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createCodec } from '../codec/codec.js'
import { HoldfastError } from '../errors.js'
import { type ClassifyOptions, classifyFailure } from './classify.js'
import { BusinessError, PermanentError, TransientError } from './failure-errors.js'

const lenient: ClassifyOptions = { unknown: 'transient' }
const strict: ClassifyOptions = { unknown: 'permanent' }

const named = (name: string, properties: object = {}) => Object.assign(new Error('x'), { name }, properties)

describe('classifyFailure', () => {
  it.each<[string, unknown, string, string]>([
    ['a transient error', new TransientError('x'), 'TRANSIENT', 'TRANSIENT_ERROR'],
    ['a business error', new BusinessError('x'), 'BUSINESS', 'BUSINESS_ERROR'],
    ['a permanent error', new PermanentError('x'), 'PERMANENT', 'PERMANENT_ERROR'],
    ['an error with its own code', new BusinessError('x', { code: 'CARD_DECLINED' }), 'BUSINESS', 'CARD_DECLINED'],
    ['a timeout', named('TimeoutError'), 'TRANSIENT', 'TIMEOUT'],
    ['a timeout of a socket', named('Error', { code: 'ETIMEDOUT' }), 'TRANSIENT', 'TIMEOUT'],
    ['an abort for a timeout', named('AbortError', { cause: named('TimeoutError') }), 'TRANSIENT', 'TIMEOUT'],
    ['an abort for another reason', named('AbortError'), 'PERMANENT', 'INTERNAL_ERROR'],
    ['a refused rate limit', named('HoldfastError', { code: 'HF_X', status: 429 }), 'TRANSIENT', 'HF_X'],
    ['a stopped instance', new HoldfastError('HF_STOPPED', { what: 'it' }), 'TRANSIENT', 'HF_STOPPED'],
    [
      'our refusal',
      new HoldfastError('HF_NOT_ENCODABLE', { path: '$', problem: 'x' }),
      'PERMANENT',
      'HF_NOT_ENCODABLE',
    ],
    ['an error of somebody else', named('DatabaseError', { code: '23505' }), 'PERMANENT', 'INTERNAL_ERROR'],
  ])('K-08 %s', (_, error, kind, code) => {
    expect(classifyFailure(error, strict)).toMatchObject({ kind, code })
  })

  it('K-08 an unknown error has the kind that the model chooses', () => {
    expect(classifyFailure(new Error('x'), lenient).kind).toBe('TRANSIENT')
    expect(classifyFailure(new Error('x'), strict).kind).toBe('PERMANENT')
  })

  it('K-08 what AbortSignal.timeout makes is a timeout', async () => {
    const signal = AbortSignal.timeout(1)
    const thrown = await wait(60_000, undefined, { signal }).catch((error: unknown) => error)
    expect(classifyFailure(thrown, strict)).toMatchObject({ kind: 'TRANSIENT', code: 'TIMEOUT' })
    expect(classifyFailure(signal.reason, strict)).toMatchObject({ kind: 'TRANSIENT', code: 'TIMEOUT' })
  })

  it('K-08 an error of another copy of the package says its kind too', () => {
    const foreign = Object.assign(new Error('x'), { [Symbol.for('holdfast.failureKind')]: 'BUSINESS', code: 'NO' })
    expect(classifyFailure(foreign, lenient)).toMatchObject({ kind: 'BUSINESS', code: 'NO' })
  })

  it('keeps the name and the cause of an error of another library', () => {
    const cause = named('ConnectError', { message: 'refused' })
    const error = new TypeError('fetch failed', { cause })
    expect(classifyFailure(Object.assign(error, { code: 'E1' }), lenient)).toMatchObject({
      details: { name: 'TypeError', code: 'E1' },
      causes: ['ConnectError: refused'],
    })
  })
})

describe("the definition's classifier", () => {
  it.each<[string, Error, ReturnType<NonNullable<ClassifyOptions['classify']>>, object]>([
    [
      'decides on errors of others',
      named('StripeError', { code: 'declined' }),
      'business',
      { kind: 'BUSINESS', code: 'declined' },
    ],
    ['need not name a code', new Error('x'), 'permanent', { kind: 'PERMANENT', code: 'PERMANENT_ERROR' }],
    ['goes before our rule on timeouts', named('TimeoutError'), 'permanent', { kind: 'PERMANENT' }],
    ['may have no opinion', new Error('x'), undefined, { kind: 'TRANSIENT', code: 'INTERNAL_ERROR' }],
    ['is not asked where the error says its kind', new BusinessError('x'), 'transient', { kind: 'BUSINESS' }],
  ])('K-08 %s', (_, error, answer, expected) => {
    expect(classifyFailure(error, { ...lenient, classify: () => answer })).toMatchObject(expected)
  })

  it('K-08 does not hide the error when it throws itself', () => {
    const classify = () => {
      throw new Error('classifier broken')
    }
    expect(classifyFailure(new Error('original'), { ...lenient, classify })).toMatchObject({
      kind: 'TRANSIENT',
      code: 'INTERNAL_ERROR',
      message: 'original',
      classifierProblem: 'it threw: classifier broken',
    })
  })

  it('K-08 is named when it returns an unknown kind', () => {
    // As from JavaScript, where no type forbids it.
    const classify: NonNullable<ClassifyOptions['classify']> = () => JSON.parse('"retry"')
    expect(classifyFailure(new Error('x'), { ...strict, classify })).toMatchObject({
      kind: 'PERMANENT',
      classifierProblem: "it answered 'retry'",
    })
  })
})

describe('failures are data', () => {
  const trap = () => {
    throw new Error('trap')
  }
  const hostile = Object.defineProperties(new Error(), {
    message: { get: trap },
    name: { get: trap },
    code: { get: trap },
  })
  const { proxy: revoked, revoke } = Proxy.revocable({}, {})
  revoke()
  const circular: Error & { cause?: unknown } = new Error('round')
  circular.cause = circular

  it.each<[string, unknown, string]>([
    ['a text', 'no luck', 'no luck'],
    ['an empty text', '', "'' was thrown"],
    ['undefined', undefined, 'undefined was thrown'],
    ['null', null, 'null was thrown'],
    ['a number', 42, '42 was thrown'],
    ['a symbol', Symbol('x'), 'Symbol(x) was thrown'],
    ['an object', { status: 500 }, '{ status: 500 } was thrown'],
    ['an object with a message', { message: 'from afar' }, 'from afar'],
    ['an error without a message', new TypeError(), 'TypeError'],
    ['an error that is its own cause', circular, 'round'],
    ['\\u0000 and half a pair', new Error('a\u0000b\ud83d'), 'a\ufffdb\ufffd'],
  ])('whatever is thrown: %s', (_, thrown, message) => {
    expect(classifyFailure(thrown, lenient)).toMatchObject({ message, kind: 'TRANSIENT', code: 'INTERNAL_ERROR' })
  })

  it('whatever is thrown: errors that cannot even be read', () => {
    for (const thrown of [hostile, revoked]) {
      expect(classifyFailure(thrown, lenient)).toMatchObject({ kind: 'TRANSIENT', code: 'INTERNAL_ERROR' })
    }
  })

  it('a huge message is cut', () => {
    const { message } = classifyFailure(new Error('x'.repeat(10_000_000)), lenient)
    expect(message).toMatch(/^x{8000}… \(9992000 more characters\)$/)
  })

  it('a cut never splits a surrogate pair', () => {
    const { message } = classifyFailure(new Error(`x${'😀'.repeat(5000)}`), lenient)
    expect(message).not.toMatch(/\p{Surrogate}/u)
  })

  it.each<[string, unknown, unknown]>([
    ['plain', { limit: 5 }, { limit: 5 }],
    ['richer than JSON', { at: new Date(0), n: 5n }, { at: '1970-01-01T00:00:00.000Z', n: '5' }],
    ['that cannot be stored', { a: () => 1 }, { omitted: 'details.a cannot be stored: it is a function' }],
    ['too large', 'x'.repeat(20_000), { omitted: expect.stringContaining('over the limit') }],
  ])('details %s', (_, details, expected) => {
    expect(classifyFailure(new BusinessError('x', { details }), lenient).details).toEqual(expected)
  })

  it('any failure can be stored', () => {
    const codec = createCodec()
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
        (thrown) => {
          const wrapped = Object.assign(new Error('x'), { code: thrown, message: thrown, cause: thrown })
          for (const error of [thrown, wrapped, new BusinessError('x', { details: thrown })]) {
            codec.encode(classifyFailure(error, lenient))
          }
        },
      ),
    )
  })
})
