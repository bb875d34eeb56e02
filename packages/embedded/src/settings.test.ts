import { describe, expect, it } from 'vitest'
import { differingSetting, effectiveSettings } from './settings.js'

describe('effectiveSettings', () => {
  it('turns durability off for an ephemeral server only', () => {
    expect(effectiveSettings({}, true)).toMatchObject({
      fsync: 'off',
      synchronous_commit: 'off',
      full_page_writes: 'off',
    })
    expect(Object.keys(effectiveSettings({}, false))).toEqual(['timezone', 'log_timezone'])
  })

  it('settings of the caller win, in upper or lower case', () => {
    expect(effectiveSettings({ FSYNC: true, max_connections: 20 }, true)).toMatchObject({
      fsync: 'on',
      max_connections: '20',
    })
  })

  it.each([
    ['port', 5432, /option `port`/],
    ['listen_addresses', '*', /127.0.0.1 only/],
    ['Data_Directory', '/x', /option `dataDir`/],
    ['work_mem=1 -c fsync', 'off', /not the name/],
  ])('refuses %s', (name, value, message) => {
    expect(() => effectiveSettings({ [name]: value }, false)).toThrow(message)
  })

  it('refuses a value that is not a string, number or boolean', () => {
    const broken: Record<string, string> = JSON.parse('{"work_mem": {"mb": 8}}')
    expect(() => effectiveSettings(broken, false)).toThrow(/type object/)
  })
})

describe('differingSetting', () => {
  it('names the first setting that a running server does not have', () => {
    const running = { fsync: 'on', work_mem: '8MB' }
    expect(differingSetting({ fsync: true }, running)).toBeUndefined()
    expect(differingSetting({ fsync: true, work_mem: '9MB' }, running)).toBe('work_mem')
    expect(differingSetting({ jit: 'off' }, running)).toBe('jit')
  })
})
