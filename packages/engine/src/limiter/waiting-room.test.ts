import { expect, test } from 'vitest'
import { createWaitingRoom } from './waiting-room.js'

test('R-02 no wait ends before its time', async () => {
  const room = createWaitingRoom()
  const began = performance.now()
  const waits = await Promise.all(
    [0, 0.4, 1, 1.7, 5, 20.01].map(async (milliseconds) => {
      await room.wait(milliseconds)
      return performance.now() - began - milliseconds
    }),
  )
  expect(waits.every((surplus) => surplus >= 0)).toBe(true)
})

test('R-02 an abort ends a wait with its reason, before and during the wait', async () => {
  const room = createWaitingRoom()
  const reason = new Error('changed my mind')
  await expect(room.wait(60_000, AbortSignal.abort(reason))).rejects.toBe(reason)
  const controller = new AbortController()
  const waiting = room.wait(60_000, controller.signal)
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
})

test('R-02 closing ends all waits', async () => {
  const room = createWaitingRoom()
  const waiting = room.wait(60_000)
  room.close()
  await expect(waiting).rejects.toMatchObject({ code: 'HF_STOPPED' })
})
