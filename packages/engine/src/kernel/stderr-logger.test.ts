import { testDatabase } from '@holdfast/testing'
import { waitFor } from '@holdfast/testing/internal'
import { afterEach, expect, test, vi } from 'vitest'
import { defineCommand } from '../commands/index.js'
import { holdfast } from '../holdfast.js'
import type { HoldfastOptions } from '../options.js'
import { PermanentError } from './failure/failure-errors.js'

afterEach(() => vi.restoreAllMocks())

/** Sends a command that fails for good; answers what came on stderr. */
async function failOne(options: HoldfastOptions): Promise<string> {
  let written = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    written += text
    return true
  })
  const { connectionString } = await testDatabase()
  const hf = await holdfast({ connectionString, ...options })
  const Pay = defineCommand('payments', 'Pay')
  hf.handle(Pay, () => {
    throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
  })
  await hf.run({ poll: '20ms' })
  await hf.send(Pay, {})
  await waitFor(
    'it is in troubleshooting',
    async () => (await hf.trouble.count({ model: 'commands', domain: 'payments' })) === 1,
  )
  await hf.close()
  return written
}

test('K-21 without a logger, warnings and errors go to stderr as readable lines', async () => {
  const written = await failOne({})
  expect(written).toMatch(/WARN {2}holdfast: attempt 1 of payments\/Pay failed: no such account event=attempt_failed/)
  expect(written).toMatch(/ERROR holdfast: payments\/Pay needs a person \(NO_ACCOUNT\): no such account/)
  expect(written).toContain('stderr-logger.test.ts')
})

test('K-21 `logger: false` silences them', async () => {
  expect(await failOne({ logger: false })).toBe('')
})

test('K-21 an invalid logger is refused where it is given', async () => {
  const logger = { info() {} } as never
  await expect(holdfast({ connectionString: 'postgres://localhost/none', logger })).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
    details: { option: 'logger' },
  })
})
