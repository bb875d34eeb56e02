import { describe, expect, test } from 'vitest'
import type { PgmqFacts, PgmqFunction } from './facts.js'
import { isRecent, planInstallation } from './plan.js'

const fn = (name: string, required: number, ...args: string[]): PgmqFunction => ({ name, required, args })
const moment = 'timestamp with time zone'

/** As PGMQ 1.5.0 has them. */
const functions: PgmqFunction[] = [
  fn('create', 1, 'text'),
  fn('drop_queue', 1, 'text'),
  fn('list_queues', 0),
  fn('send', 4, 'text', 'jsonb', 'jsonb', moment),
  fn('send_batch', 4, 'text', 'jsonb[]', 'jsonb[]', moment),
  fn('read', 3, 'text', 'integer', 'integer', 'jsonb'),
  fn('read_with_poll', 3, 'text', 'integer', 'integer', 'integer', 'integer', 'jsonb'),
  fn('pop', 1, 'text'),
  fn('delete', 2, 'text', 'bigint[]'),
  fn('archive', 2, 'text', 'bigint[]'),
  fn('set_vt', 3, 'text', 'bigint', 'integer'),
  fn('purge_queue', 1, 'text'),
  fn('metrics', 1, 'text'),
]

const nothing: PgmqFacts = {
  role: 'app',
  database: 'shop',
  extension: null,
  available: null,
  mayCreateExtension: false,
  mayCreateSchema: true,
  schemaExists: false,
  ownsSchema: false,
  schemaIsEmpty: false,
  comment: null,
  mayUse: false,
  functions: [],
}
const offered: PgmqFacts = { ...nothing, available: '1.11.1', mayCreateExtension: true }
const present: PgmqFacts = { ...nothing, schemaExists: true, mayUse: true, functions }
const empty: PgmqFacts = {
  ...nothing,
  schemaExists: true,
  schemaIsEmpty: true,
  ownsSchema: true,
  mayCreateSchema: false,
}
const lacking = functions.filter(({ name }) => name !== 'send' && name !== 'pop')
const installed: PgmqFacts = { ...present, extension: '1.5.0', available: '1.11.1' }

describe('Q-01 which PGMQ is used', () => {
  test.each([
    ['the extension is there', installed, { source: 'extension', version: '1.5.0' }],
    [
      'also where no schema may be created',
      { ...installed, mayCreateSchema: false },
      { source: 'extension', version: '1.5.0' },
    ],
    [
      'plain SQL of ours',
      { ...present, comment: 'PGMQ 1.11.1, installed as plain SQL by Holdfast' },
      { source: 'sql', version: '1.11.1' },
    ],
    ['plain SQL of somebody else', present, { source: 'sql', version: 'unknown' }],
    [
      'plain SQL, though the server has the extension',
      { ...present, available: '1.11.1' },
      { source: 'sql', version: 'unknown' },
    ],
    [
      'a later version with an argument more that may be left out',
      { ...installed, functions: [...functions.filter(({ name }) => name !== 'pop'), fn('pop', 1, 'text', 'integer')] },
      { source: 'extension', version: '1.5.0' },
    ],
  ] satisfies [string, PgmqFacts, object][])('%s', (_, facts, info) => {
    expect(planInstallation(facts)).toEqual({ step: 'use', info })
  })
})

describe('Q-01 what is installed where PGMQ is missing', () => {
  test.each([
    ['the extension, if the server offers it', offered, { step: 'create extension' }],
    [
      'the extension, also into an empty schema',
      { ...empty, available: '1.5.0', mayCreateExtension: true },
      { step: 'create extension' },
    ],
    ['plain SQL otherwise', nothing, { step: 'install sql', createSchema: true }],
    [
      'plain SQL if the server offers only what is too old',
      { ...offered, available: '1.4.4' },
      { step: 'install sql', createSchema: true },
    ],
    ['plain SQL into an empty schema of ours', empty, { step: 'install sql', createSchema: false }],
  ] satisfies [string, PgmqFacts, object][])('%s', (_, facts, plan) => {
    expect(planInstallation(facts)).toEqual(plan)
  })
})

describe('Q-01 what is refused, and what the message says', () => {
  test.each([
    [
      'an extension older than 1.5',
      { ...installed, extension: '1.4.5' },
      'HF_QUEUE_TOO_OLD',
      'version 1.4.5; 1.5 is the oldest',
    ],
    [
      'a schema that lacks what we need',
      { ...present, functions: lacking },
      'HF_QUEUE_UNAVAILABLE',
      'lacks send(text, jsonb, jsonb, timestamp with time zone), pop(text)',
    ],
    [
      'a function that needs more arguments than we give',
      { ...present, functions: [...functions.filter(({ name }) => name !== 'pop'), fn('pop', 2, 'text', 'integer')] },
      'HF_QUEUE_UNAVAILABLE',
      'lacks pop(text)',
    ],
    ['an extension that lacks them', { ...installed, functions: lacking }, 'HF_QUEUE_UNAVAILABLE', 'lacks send('],
    [
      'an extension that we may not create',
      { ...offered, mayCreateExtension: false },
      'HF_NOT_PERMITTED',
      'An administrator can run: create extension pgmq; grant usage, create on schema pgmq to "app";',
    ],
    [
      'a schema that we may not create',
      { ...nothing, mayCreateSchema: false },
      'HF_NOT_PERMITTED',
      'create schema pgmq authorization "app";',
    ],
    [
      'an empty schema of somebody else',
      { ...empty, ownsSchema: false },
      'HF_NOT_PERMITTED',
      'alter schema pgmq owner to "app";',
    ],
    [
      'a schema that we may not use',
      { ...present, mayUse: false },
      'HF_NOT_PERMITTED',
      'grant usage, create on schema pgmq to "app";',
    ],
  ] satisfies [string, PgmqFacts, string, string][])('%s', (_, facts, code, message) => {
    expect(planInstallation(facts)).toMatchObject({
      step: 'refuse',
      error: { code, message: expect.stringContaining(message) },
    })
  })
})

test.each([
  ['1.4.5', false],
  ['1.5', true],
  ['1.5.0', true],
  ['1.11.1', true],
  ['2.0.0-beta', true],
  ['0.33.3', false],
])('Q-01 %s is recent enough: %s', (version, recent) => {
  expect(isRecent(version)).toBe(recent)
})
