import { connectionStringOf } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { start } from './main.fixture.js'

test.each([
  { args: ['nothing'], says: "There is no workload 'nothing'. The workloads are: loop," },
  { args: ['loop', '--fast'], says: "Unknown option '--fast'. The options are --rounds" },
])('$args ends with exit code 2 and prints the usage', async ({ args, says }) => {
  const { code, stdout, stderr } = await start(args).ended
  expect(stderr).toContain(says)
  expect(stdout).toBe('')
  expect(code).toBe(2)
})

test('--list names every workload with its systems', async () => {
  const { code, stdout } = await start(['--list']).ended
  expect(stdout).toMatch(/^loop: .*\n {4}hand-batched SQL \(connections 1/)
  expect(code).toBe(0)
})

test('a server that may lose committed data is refused', async () => {
  const url = new URL(connectionStringOf('postgres'))
  url.searchParams.set('options', '-c synchronous_commit=off')
  const { code, stdout, stderr } = await start(['loop', '--items', '10'], { DATABASE_URL: url.href }).ended
  expect(stderr).toMatch(/runs with (fsync|synchronous_commit) off/)
  expect(stdout).toBe('')
  expect(code).toBe(1)
})
