import { testDatabase, waitFor } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from './open.js'

const { connectionString } = await testDatabase({ empty: true })
const db = await openDatabase({ connectionString, poolSize: 1 })

test('notifications arrive on a connection of their own', async () => {
  const direct = await db.connect()
  onTestFinished(() => direct.close())
  const heard: string[] = []
  direct.onNotification((channel, payload) => heard.push(`${channel}: ${payload}`))
  await direct.query('listen news')
  await db.run({ name: 'notify', text: "select pg_notify('news', $1::text)" }, ['hello'])
  await waitFor('the notification', () => heard.length > 0)
  expect(heard).toEqual(['news: hello'])
})

test('K-11 its holder is notified once when it is lost, also a holder that subscribes late', async () => {
  const direct = await db.connect()
  const lost: string[] = []
  direct.onLost((error) => lost.push(error.message))
  const [own] = await direct.run<{ pid: number }>({ name: 'own', text: 'select pg_backend_pid() as pid' })
  await db.run({ name: 'kill', text: 'select pg_terminate_backend($1::int, 5000)' }, [own?.pid])
  await waitFor('the loss', () => lost.length > 0)
  direct.onLost((error) => lost.push(`late: ${error.message}`))
  await expect(direct.query('select 1')).rejects.toThrow()
  await direct.close()
  expect(lost).toEqual([lost[0], `late: ${lost[0]}`])
})

test('closing it is not a loss, and may be done twice', async () => {
  const direct = await db.connect()
  const lost: Error[] = []
  direct.onLost((error) => lost.push(error))
  await direct.close()
  await direct.close()
  expect(lost).toEqual([])
})

test('it goes to the direct address where one is given', async () => {
  const url = new URL(connectionString)
  url.searchParams.set('application_name', 'the direct one')
  const both = await openDatabase({ connectionString, directConnectionString: url.href })
  onTestFinished(() => both.close())
  const direct = await both.connect()
  const name = { name: 'name', text: "select current_setting('application_name') as name" }
  expect(await direct.run(name)).toEqual([{ name: 'the direct one' }])
  expect(await both.run(name)).toEqual([{ name: 'holdfast' }])
  expect(await direct.isPooled()).toBe(false)
})

test('an address that does not respond is one clear error', async () => {
  const url = new URL(connectionString)
  url.port = '1'
  const both = await openDatabase({ connectionString, directConnectionString: url.href })
  onTestFinished(() => both.close())
  await expect(both.connect()).rejects.toMatchObject({ code: 'HF_DATABASE_UNREACHABLE' })
})
