import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { callLimited } from './limited.js'

const never = () => new Promise<never>(() => undefined)
const limits = { limitMs: 60_000, graceMs: 0, around: () => [] }

test('K-19 a call past its time limit fails, whatever it returns afterwards, and its signal has fired', async () => {
  let signal: AbortSignal | undefined
  const call = callLimited({ ...limits, limitMs: 5, graceMs: 60_000 }, async (over) => {
    signal = over.signal
    await new Promise((resolve) => over.signal.addEventListener('abort', resolve))
    return 'late'
  })
  await expect(call).rejects.toMatchObject({ code: 'TIMEOUT' })
  expect(signal?.aborted).toBe(true)
})

test('K-19 a call that ignores its signal is abandoned after the grace time, with the error that the caller chose', async () => {
  const late = (limitMs: number) => new Error(`not within ${limitMs}`)
  await expect(callLimited({ ...limits, limitMs: 5, late }, never)).rejects.toThrow('not within 5')
})

test('D-13 a call may be ended by a signal as by its time limit; nothing is left on the signal', async () => {
  const lost = new AbortController()
  const ended = { ...limits, around: () => [lost.signal], endedBy: lost.signal }
  const call = callLimited(ended, never)
  lost.abort(new Error('the lease is lost'))
  await expect(call).rejects.toThrow('the lease is lost')
  await expect(callLimited(ended, async () => 'too late')).rejects.toThrow('the lease is lost')
  expect(getEventListeners(lost.signal, 'abort')).toEqual([])
})

test('K-19 a call that ends in time keeps its own outcome', async () => {
  const lost = new AbortController()
  const ended = { ...limits, endedBy: lost.signal }
  expect(await callLimited(ended, () => 'done')).toBe('done')
  await expect(callLimited(ended, () => Promise.reject(new Error('its own')))).rejects.toThrow('its own')
  expect(getEventListeners(lost.signal, 'abort')).toEqual([])
})
