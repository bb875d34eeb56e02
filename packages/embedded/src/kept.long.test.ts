import { readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startInChild } from '../test/child-program.js'
import { ask, scratchFolder, stopAfterTest, takenPort } from '../test/scratch.js'
import { isAlive } from './process-table.js'
import { startEmbedded } from './start.js'

describe('a server that is kept', () => {
  it('has its data, password and port again after it was stopped and started, twice', async () => {
    const dataDir = join(scratchFolder(), 'kept')
    const first = await stopAfterTest(startEmbedded({ dataDir }))
    await ask(first.connectionString, 'create table kept (n int)')
    await first.stop()
    for (const n of [1, 2]) {
      const again = await stopAfterTest(startEmbedded({ dataDir }))
      expect(again).toMatchObject({ reused: false, dataDir, connectionString: first.connectionString })
      await ask(again.connectionString, `insert into kept values (${n})`)
      expect(await ask(again.connectionString, 'select count(*)::int from kept')).toBe(n)
      expect(await ask(again.connectionString, 'show fsync')).toBe('on')
      await again.stop()
    }
    expect(readdirSync(dirname(dataDir))).toEqual(['kept'])
    expect(statSync(join(dataDir, 'holdfast.json')).mode & 0o777).toBe(0o600)
  })

  it('is started once by programs that start it at the same moment, and lasts until the last of them stops', async () => {
    const dataDir = join(scratchFolder(), 'shared')
    const [here, there, third] = await Promise.all([
      stopAfterTest(startEmbedded({ dataDir })),
      startInChild({ dataDir }),
      startInChild({ dataDir }),
    ])
    const all = [here, there.started, third.started]
    expect(new Set(all.map((server) => server.pid)).size).toBe(1)
    expect(all.filter((server) => !server.reused)).toHaveLength(1)
    there.child.kill('SIGKILL')
    await there.ended
    await here.stop()
    expect(await ask(here.connectionString, 'select 1')).toBe(1)
    third.child.kill('SIGKILL')
    await third.ended
    const last = await stopAfterTest(startEmbedded({ dataDir }))
    expect(last).toMatchObject({ reused: true, pid: here.pid })
    await last.stop()
    expect(isAlive(here.pid)).toBe(false)
  })

  it('is stopped for all programs by stop({ force: true })', async () => {
    const dataDir = join(scratchFolder(), 'forced')
    const first = await stopAfterTest(startEmbedded({ dataDir }))
    const second = await stopAfterTest(startEmbedded({ dataDir }))
    await second.stop()
    expect(isAlive(first.pid)).toBe(true)
    await second.stop({ force: true })
    expect(isAlive(first.pid)).toBe(false)
    await first.stop()
  })

  it('that runs with another port or other settings than requested is not silently reused', async () => {
    const dataDir = join(scratchFolder(), 'particular')
    const server = await stopAfterTest(startEmbedded({ dataDir, settings: { work_mem: '8MB' } }))
    const refused = { code: 'HF_EMBEDDED_RUNNING_DIFFERENTLY', message: expect.stringContaining(String(server.pid)) }
    await expect(startEmbedded({ dataDir, port: server.port === 5555 ? 5556 : 5555 })).rejects.toMatchObject(refused)
    await expect(startEmbedded({ dataDir, settings: { work_mem: '9MB' } })).rejects.toMatchObject(refused)
    const same = await stopAfterTest(startEmbedded({ dataDir, port: server.port, settings: { work_mem: '8MB' } }))
    expect(same.reused).toBe(true)
  })

  it('gets a free port instead of the one of its last start when another program uses it', async () => {
    const dataDir = join(scratchFolder(), 'moved')
    const first = await stopAfterTest(startEmbedded({ dataDir }))
    await first.stop()
    await takenPort(first.port)
    const said: string[] = []
    const second = await stopAfterTest(startEmbedded({ dataDir, log: (line) => said.push(line) }))
    expect(second.port).not.toBe(first.port)
    expect(said).toContainEqual(expect.stringContaining(`port ${first.port} is in use`))
    expect(await ask(second.connectionString, 'select 1')).toBe(1)
  })
})
