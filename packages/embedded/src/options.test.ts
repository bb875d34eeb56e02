import { expect, it } from 'vitest'
import { checkOptions, type EmbeddedOptions } from './options.js'
import { startEmbedded } from './start.js'

const bad: [string, object, RegExp][] = [
  ['an unknown name', { datadir: '/x' }, /no option 'datadir'.*dataDir/s],
  ['a wrong type', { port: '5432' }, /port is a string.*must be a number/s],
  ['null', { settings: null }, /settings is null/],
  ['a port out of range', { port: 70_000 }, /port is 70000/],
  ['a port that is no whole number', { port: 1.5 }, /port is 1.5/],
  ['an ephemeral server with a place for its data', { ephemeral: true, dataDir: '/x' }, /Both ephemeral and dataDir/],
  ['an empty place', { dataDir: '' }, /dataDir is empty/],
]

it.each(bad)('%s is refused before anything is touched', async (_title, options, message) => {
  const given: EmbeddedOptions = options
  await expect(startEmbedded(given)).rejects.toMatchObject({
    code: 'HF_EMBEDDED_INVALID_OPTION',
    message: expect.stringMatching(message),
  })
})

it('valid options are accepted, and undefined counts as not given', () => {
  const given: EmbeddedOptions = { port: 5432, settings: { work_mem: '8MB' }, dataDir: undefined }
  expect(() => checkOptions(given)).not.toThrow()
})
