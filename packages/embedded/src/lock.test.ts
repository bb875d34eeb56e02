import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { scratchFolder } from '../test/scratch.js'
import { tryLock, withLock } from './lock.js'

it('a lock has one holder at a time', async () => {
  const path = join(scratchFolder(), 'lock')
  let inside = 0
  const widths = await Promise.all(
    Array.from({ length: 5 }, () =>
      withLock(path, async () => {
        inside += 1
        await new Promise(setImmediate)
        return inside--
      }),
    ),
  )
  expect(widths).toEqual([1, 1, 1, 1, 1])
  expect(existsSync(path)).toBe(false)
})

it('is released when the work fails', async () => {
  const path = join(scratchFolder(), 'lock')
  await expect(withLock(path, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(existsSync(path)).toBe(false)
})

it('of a living process is respected', () => {
  const path = join(scratchFolder(), 'lock')
  const release = tryLock(path)
  expect(tryLock(path)).toBeUndefined()
  release?.()
  expect(tryLock(path)).toBeTypeOf('function')
})

it('of a dead process is taken over', async () => {
  const path = join(scratchFolder(), 'lock')
  const child = spawn(process.execPath, ['-e', ''])
  await once(child, 'exit')
  writeFileSync(path, JSON.stringify({ pid: child.pid }))
  expect(tryLock(path)).toBeTypeOf('function')
  expect(readdirSync(dirname(path))).toEqual(['lock'])
})

it.skipIf(process.platform !== 'linux')('of a process whose number another has got since is taken over', () => {
  const path = join(scratchFolder(), 'lock')
  writeFileSync(path, JSON.stringify({ pid: process.pid, started: '1' }))
  expect(tryLock(path)).toBeTypeOf('function')
})

it('without content is respected while it is young, and taken over when its writer must be dead', () => {
  const path = join(scratchFolder(), 'lock')
  writeFileSync(path, '')
  expect(tryLock(path)).toBeUndefined()
  utimesSync(path, new Date(0), new Date(0))
  expect(tryLock(path)).toBeTypeOf('function')
})
