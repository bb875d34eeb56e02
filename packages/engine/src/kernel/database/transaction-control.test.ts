import { testDatabase } from '@holdfast/testing/internal'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { openDatabase } from './open.js'
import type { Transaction } from './transaction.js'
import { judgeResult, mayKeepSetting, refuseControl } from './transaction-control.js'

const { connectionString } = await testDatabase({ empty: true })
const db = await openDatabase({ connectionString })
await db.transaction((tx) => tx.query('create table account (id int primary key)'))
beforeEach(() => db.transaction((tx) => tx.query('truncate account')).then(() => undefined))

const userCode = { limitMs: 10_000, idleMs: 10_000 }
const read = { name: 'read', text: 'select id from account order by id' }

describe('K-15 statements that end a transaction of ours or change the session', () => {
  test.each([
    'commit',
    ' /* so */ COMMIT work',
    'end',
    'end transaction and chain',
    'rollback',
    'rollback and chain',
    'abort',
    'begin',
    'start transaction',
    "prepare transaction 'x'",
    'insert into account values (1); commit',
    "insert into account values (1) -- ' \n; rollback; begin",
    'set search_path = evil',
    'set session statement_timeout = 1',
    'set role app',
    'reset all',
    'discard all',
    'listen news',
    "select set_config('app.tenant', $1, false)",
  ])('%s is refused', (text) => {
    expect(() => refuseControl(text)).toThrow(expect.objectContaining({ code: 'HF_TRANSACTION_CONTROL' }))
  })

  test.each([
    'update account set id = 2',
    "insert into note values ('; commit;')",
    'select "commit" from "begin"',
    'savepoint a',
    'rollback to a',
    'rollback work to savepoint a',
    'release savepoint a',
    'set local search_path = mine',
    'set transaction isolation level serializable',
    'set constraints all deferred',
    'do $$ begin perform 1; end $$',
    'create function f() returns int begin atomic select 1; end',
    "select case when true then 'a' end; select 1",
    "select set_config('app.tenant', $1, true)",
    'prepare p as select 1',
  ])('%s is not', (text) => {
    expect(() => refuseControl(text)).not.toThrow()
  })

  test('a setting that may be the session’s is told from one of the transaction', () => {
    expect(mayKeepSetting("select set_config('a.b', $1, true)")).toBe(false)
    expect(mayKeepSetting("select set_config('a.b', $1, $2)")).toBe(true)
    expect(mayKeepSetting("select set_config('a.b', '1', true), set_config('a.c', lower('X'), x)")).toBe(true)
    expect(mayKeepSetting('select 1')).toBe(false)
  })

  test.each([
    ['COMMIT', 'select 1', 'ended'],
    ['ROLLBACK', 'rollback to a', 'ask'],
    ['SET', 'set local a.b = 1', 'fine'],
    ['SET', '?', 'session'],
    ['UPDATE', 'update', 'fine'],
  ] as const)('the command tag %s of `%s` means: %s', (command, text, judgement) => {
    expect(judgeResult({ command, rows: [] }, text)).toBe(judgement)
    expect(
      judgeResult(
        [
          { command: 'SELECT', rows: [] },
          { command, rows: [] },
        ],
        text,
      ),
    ).toBe(judgement)
  })
})

/** The quote that the escape hides from us makes the rest look like a text. */
const hidden = (statement: string) => `select E'it\\'s'; ${statement}; select ''`

test.each(['commit', 'rollback', 'set session statement_timeout = 1'])(
  'K-15 user code that runs %s is refused, and nothing of it is committed even if it catches the error',
  async (statement) => {
    const work = async (tx: Transaction) => {
      await tx.query('insert into account values (1)')
      await tx.query(statement).catch(() => undefined)
      await tx.run({ name: 'finish', text: 'insert into account values (2)' }).catch(() => undefined)
    }
    await expect(db.transaction(work, { userCode })).rejects.toMatchObject({ code: 'HF_TRANSACTION_CONTROL' })
    expect(await db.run(read)).toEqual([])
  },
)

test.each(['commit', 'rollback', 'commit and chain', 'rollback and chain', 'rollback; begin'])(
  'K-15 a hidden %s is noticed afterwards, and nothing of ours is written behind it',
  async (statement) => {
    const work = async (tx: Transaction) => {
      await tx.query('insert into account values (1)')
      await tx.query(hidden(statement)).catch(() => undefined)
      await tx.run({ name: 'finish', text: 'insert into account values (2)' })
    }
    await expect(db.transaction(work, { userCode })).rejects.toMatchObject({ code: 'HF_TRANSACTION_ENDED' })
    expect(await db.run(read)).toEqual(statement.startsWith('commit') ? [{ id: 1 }] : [])
  },
)

test('K-15 savepoints keep working', async () => {
  await db.transaction(
    async (tx) => {
      await tx.query('insert into account values (1)')
      await tx.query('savepoint a')
      await tx.query('insert into account values (2)')
      await tx.query('rollback to savepoint a')
      await tx.query('insert into account values (3)')
    },
    { userCode },
  )
  expect(await db.run(read)).toEqual([{ id: 1 }, { id: 3 }])
})

test('K-15 a setting that user code leaves on the session does not reach the next user of the connection', async () => {
  const single = await openDatabase({ connectionString, poolSize: 1 })
  onTestFinished(() => single.close())
  await single.transaction((tx) => tx.query("select set_config('app.tenant', $1, $2)", ['acme', 'off']), { userCode })
  const [row] = await single.run({ name: 'tenant', text: "select current_setting('app.tenant', true) as tenant" })
  expect(row).toEqual({ tenant: null })
})
