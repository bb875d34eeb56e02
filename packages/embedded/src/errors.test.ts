import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { EmbeddedPostgresError, embeddedErrorCodes } from './errors.js'

it('the guide explains every code', () => {
  const guide = readFileSync(new URL('../../../docs/guides/embedded-postgres.md', import.meta.url), 'utf8')
  const explained = [...guide.matchAll(/^\| `(HF_\w+)` +\|/gm)].map((match) => match[1])
  expect(explained.sort()).toEqual([...embeddedErrorCodes].sort())
})

it('says what happened, what to do, its code and the end of the log, and keeps the cause', () => {
  const cause = new Error('disk full')
  const error = new EmbeddedPostgresError('HF_EMBEDDED_START_FAILED', 'It broke.', 'Mend it.', { cause, log: 'PANIC' })
  expect(error.message).toBe("It broke.\nMend it. [HF_EMBEDDED_START_FAILED]\n\nThe end of the server's log:\nPANIC")
  expect(error).toMatchObject({
    name: 'EmbeddedPostgresError',
    code: 'HF_EMBEDDED_START_FAILED',
    next: 'Mend it.',
    cause,
  })
})
