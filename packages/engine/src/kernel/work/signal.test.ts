import { expect, test } from 'vitest'
import { createSignal } from './signal.js'

test('K-06 a wake-up before the wait begins is not lost', async () => {
  const signal = createSignal()
  signal.fire()
  await signal.wait()
  expect(await Promise.race([signal.wait(5).then(() => 'timed out'), Promise.resolve('pending')])).toBe('pending')
})

test('K-06 a wait ends when fired, whatever its time', async () => {
  const signal = createSignal()
  const wait = signal.wait(60_000)
  signal.fire()
  await wait
})

test('K-06 a wait ends after its time', async () => {
  await createSignal().wait(1)
})
