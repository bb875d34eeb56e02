import { readFile } from 'node:fs/promises'
import { renderErrorReference, sampleMessage } from '@holdfast/testing/internal'
import { describe, expect, it } from 'vitest'
import { errorRegistry, HoldfastError } from './errors.js'

const page = new URL('../../../../docs/reference/errors.md', import.meta.url)

describe('K-14 the registry of errors', () => {
  it.each(Object.entries(errorRegistry))('%s has a message, a status and a next step', (code, entry) => {
    expect(code).toMatch(/^HF_[A-Z]+(_[A-Z]+)*$/)
    expect(entry.status).toBeGreaterThanOrEqual(400)
    expect(entry.status).toBeLessThan(600)
    expect(entry.next).toMatch(/^[A-Z].{10,}[.!]$/)
    const message = sampleMessage(entry.message)
    expect(message.length).toBeGreaterThan(10)
    expect(message).not.toMatch(/undefined|\[object/)
  })

  it('is what the reference page lists; `npm run build && node scripts/error-reference.mjs` renews it', async () => {
    expect(await readFile(page, 'utf8')).toBe(renderErrorReference(errorRegistry))
  })

  it('K-14 the reference page has every code with its next step', async () => {
    const written = await readFile(page, 'utf8')
    for (const [code, { next }] of Object.entries(errorRegistry)) {
      const section = written.split(`## ${code}\n`)[1]?.split('\n## ')[0]
      expect(section, code).toContain(next)
    }
  })

  it('is where every error gets its message, status and next step', () => {
    const cause = new Error('cause')
    const error = new HoldfastError('HF_STOPPED', { what: 'the worker' }, { cause })
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({
      name: 'HoldfastError',
      code: 'HF_STOPPED',
      message: 'the worker is stopped',
      status: 503,
      details: { what: 'the worker' },
      next: errorRegistry.HF_STOPPED.next,
      cause,
    })
  })
})

describe('sampleMessage', () => {
  it('shows the names of the details, whatever the message does with them', () => {
    const message = (d: { id: string; limit: number; types: string[] }) =>
      `${d.id} over ${d.limit + 1} of ${d.types.join(', ')}`
    expect(sampleMessage(message)).toBe('{id} over {limit} + 1 of {types}')
  })
})
