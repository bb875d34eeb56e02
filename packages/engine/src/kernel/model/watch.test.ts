import { waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { silentLogger } from '../logger.js'
import { createWatch } from './watch.js'

function watchOf(ask: (members: readonly string[]) => Promise<void>, everyMs = 3_600_000) {
  return createWatch<string>({ everyMs, ask, what: 'for news', logger: silentLogger })
}

test('W-11 one poll asks about all running items, and about none that have ended', async () => {
  const asked: (readonly string[])[] = []
  const watch = watchOf(async (members) => void asked.push(members))
  watch.look()
  const leave = watch.join('a')
  watch.join('b')
  watch.look()
  await waitFor('it has asked', () => asked.length === 1)
  leave()
  watch.look()
  await waitFor('it has asked again', () => asked.length === 2)
  expect(asked).toEqual([['a', 'b'], ['b']])
  watch.close()
})

test('W-11 a notification during a poll causes another poll, and a failed poll is not the last', async () => {
  let looks = 0
  let goOn = () => {}
  const watch = watchOf(async () => {
    looks += 1
    if (looks > 1) return
    await new Promise<void>((resolve) => {
      goOn = resolve
    })
    throw new Error('the database is away')
  })
  watch.join('a')
  watch.look()
  watch.look()
  watch.look()
  expect(looks).toBe(1)
  goOn()
  await waitFor('it has looked again', () => looks === 2)
  watch.close()
})

test('W-11 without notifications it polls by a timer', async () => {
  let looks = 0
  const watch = watchOf(async () => {
    looks += 1
  }, 5)
  watch.join('a')
  await waitFor('it has looked twice', () => looks >= 2)
  watch.close()
})
