import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { checkSchema, parseWith } from './schema.js'

const good = { id: 'PAY-1', lines: [{ amount: 5 }, { amount: 7 }] }
const bad = { id: 'PAY-1', lines: [{ amount: 5 }, { amount: 'seven' }] }
const worse = { id: 1, lines: [{ amount: 'five' }, { amount: 'seven' }] }

const schemas = {
  zod: z.object({ id: z.string(), lines: z.array(z.object({ amount: z.number() })) }),
  'zod, asynchronous': z
    .object({ id: z.string(), lines: z.array(z.object({ amount: z.number() })) })
    .refine(async () => true),
  valibot: v.object({ id: v.string(), lines: v.array(v.object({ amount: v.number() })) }),
  'valibot, asynchronous': v.objectAsync({
    id: v.pipeAsync(
      v.string(),
      v.checkAsync(async () => true),
    ),
    lines: v.array(v.object({ amount: v.number() })),
  }),
  arktype: type({ id: 'string', lines: type({ amount: 'number' }).array() }),
}

describe.each(Object.entries(schemas))('K-13 parseWith %s', (_, schema) => {
  it('gives the parsed value', async () => {
    expect(await parseWith(schema, good, 'payments.Book')).toEqual(good)
  })

  it('names the first bad field', async () => {
    await expect(async () => parseWith(schema, bad, 'payments.Book')).rejects.toThrow(
      expect.objectContaining({
        code: 'HF_INVALID_DATA',
        message: expect.stringMatching(/^payments\.Book: \$\.lines\[1\]\.amount is refused by the schema: .*number/),
        details: expect.objectContaining({ path: '$.lines[1].amount' }),
      }),
    )
  })

  it('counts the others and keeps them in the details', async () => {
    await expect(async () => parseWith(schema, worse, 'payments.Book')).rejects.toThrow(
      expect.objectContaining({
        message: expect.stringMatching(/ \(and 2 more\)$/),
        details: expect.objectContaining({
          issues: expect.arrayContaining([expect.objectContaining({ path: '$.lines[0].amount' })]),
        }),
      }),
    )
  })
})

// Like a promise that never settles, which is what is to be refused.
// oxlint-disable-next-line unicorn/no-thenable
const thenable = Object.fromEntries([['then', () => undefined]])

describe('parseWith', () => {
  it.each([
    ['without a schema', undefined],
    ['with a schema that lets it through', z.any()],
    ['as the output of a schema', z.string().transform(() => ({ ...thenable }))],
  ])('K-13 refuses a promise %s, which may never settle', async (_, schema) => {
    const value = schema instanceof z.ZodPipe ? 'text' : thenable
    await expect(async () => parseWith(schema, value, 'start p/Payment')).rejects.toThrow(
      expect.objectContaining({ code: 'HF_INVALID_DATA', message: 'start p/Payment: $ is a promise: await it first' }),
    )
  })

  it('makes no promise where the schema makes none', () => {
    expect(parseWith(schemas.zod, good, 'x')).toEqual(good)
    expect(parseWith(schemas.valibot, good, 'x')).toEqual(good)
    expect(parseWith(schemas.arktype, good, 'x')).toEqual(good)
  })

  it('gives what the schema makes of the value, in its type', async () => {
    const parsed = await parseWith(z.object({ at: z.coerce.date() }), { at: '2030-01-01T00:00:00Z' }, 'x')
    expect(parsed.at).toEqual(new Date('2030-01-01T00:00:00Z'))
    expectTypeOf(parsed).toEqualTypeOf<{ at: Date }>()
  })

  it('returns the value unchanged without a schema', () => {
    expect(parseWith(undefined, bad, 'x')).toBe(bad)
  })

  it.each<[string, () => unknown]>([
    ['at once', () => parseWith(z.string().transform(explode), 'a', 'x')],
    // Not with zod: it tries a synchronous parse first and leaves that promise's rejection unhandled (colinhacks/zod#6501).
    ['later', () => parseWith(explodingLater, 'a', 'x')],
  ])('reports a schema that throws %s, with its cause', async (_, parse) => {
    await expect(async () => parse()).rejects.toThrow(
      expect.objectContaining({
        code: 'HF_INVALID_DATA',
        message: 'x: $ made the schema throw: boom',
        cause: new Error('boom'),
      }),
    )
  })

  it('names the whole value where the schema names no field', () => {
    expect(() => parseWith(z.string(), 5, 'x')).toThrow(/^x: \$ is refused by the schema: /)
  })
})

const explodingLater = v.pipeAsync(
  v.string(),
  v.transformAsync(async () => explode()),
)

function explode(): never {
  throw new Error('boom')
}

describe('checkSchema', () => {
  it.each([
    [{ type: 'object' }, 'an object'],
    [{ '~standard': { version: 1 } }, 'an object'],
    [null, 'null'],
    [() => true, 'a function'],
  ])('refuses %j', (value, shown) => {
    expect(() => checkSchema('defineCommand', 'data', value)).toThrow(
      `defineCommand: option \`data\` must be a Standard Schema (made with zod 4, valibot 1, arktype 2 or the like), not ${shown}`,
    )
  })
})
