import { openTestBus } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'

const bus = await openTestBus()
afterAll(() => bus.close())
const { trouble } = bus.hf
const by = { actor: 'ann', reason: 'ticket 7' }
const refused = (code: string) => expect.objectContaining({ code })

test.each([
  [{ modl: 'commands' }, 'HF_UNKNOWN_OPTION'],
  [{ model: 'command' }, 'HF_INVALID_OPTION'],
  [{ model: [] }, 'HF_INVALID_OPTION'],
  [{ model: null }, 'HF_INVALID_OPTION'],
  [{ domain: 7 }, 'HF_INVALID_OPTION'],
  [{ type: '' }, 'HF_INVALID_OPTION'],
  [{ code: null }, 'HF_INVALID_OPTION'],
  [{ code: 'a\u0000b' }, 'HF_INVALID_OPTION'],
  [{ fingerprint: {} }, 'HF_INVALID_OPTION'],
  [{ since: 'yesterday' }, 'HF_INVALID_OPTION'],
  [{ until: 7 }, 'HF_INVALID_OPTION'],
  [{ assignedTo: 1 }, 'HF_INVALID_OPTION'],
  ['payments', 'HF_INVALID_OPTION'],
  [null, 'HF_INVALID_OPTION'],
])('U-06 the filter %j is refused with %s by lists, counts, groups and operations alike', async (filter, code) => {
  await expect(trouble.list(filter as never)).rejects.toThrow(refused(code))
  await expect(trouble.count(filter as never)).rejects.toThrow(refused(code))
  await expect(trouble.groups(filter as never)).rejects.toThrow(refused(code))
  await expect(trouble.retry(filter as never, by)).rejects.toThrow(refused(code))
})

test.each([{ limit: 0 }, { limit: '5' }, { cursor: 'nonsense' }, { cursor: 5 }])(
  'U-06 the page %j is refused',
  async (filter) => {
    await expect(trouble.list(filter as never)).rejects.toThrow(refused('HF_INVALID_OPTION'))
  },
)

test.each([[{}], [undefined], [7], [''], ['ALL'], [[7]], [['']], [[{ id: 'x' }]], [[null]], [{ limit: 5 }]])(
  'U-06 an operation without a selection is refused: %j',
  async (which) => {
    for (const act of [trouble.retry, trouble.complete, trouble.cancel, trouble.skip]) {
      await expect(act(which as never, by)).rejects.toThrow(refused('HF_INVALID_OPTION'))
    }
    await expect(trouble.assign(which as never, by, { to: 'bob' })).rejects.toThrow(refused('HF_INVALID_OPTION'))
  },
)

test("U-06 'all' means all, and a list of nothing means nothing", async () => {
  expect(await trouble.retry('all', by)).toEqual([])
  expect(await trouble.retry([], by)).toEqual([])
})

test('U-06 U-10 actor and reason are required', async () => {
  for (const act of [trouble.retry, trouble.complete, trouble.cancel, trouble.skip]) {
    await expect(act('all', undefined as never)).rejects.toThrow(refused('HF_INVALID_ACTOR'))
    await expect(act('all', { actor: 'ann', reason: ' ' })).rejects.toThrow(refused('HF_INVALID_ACTOR'))
  }
  await expect(trouble.assign('all', { actor: '', reason: 'x' }, { to: 'bob' })).rejects.toThrow(
    refused('HF_INVALID_ACTOR'),
  )
})

test('U-06 unknown options, or options of another type, are refused', async () => {
  await expect(trouble.retry('all', by, { notDon: true } as never)).rejects.toThrow(refused('HF_UNKNOWN_OPTION'))
  await expect(trouble.retry('all', by, { notDone: 'yes' } as never)).rejects.toThrow(refused('HF_INVALID_OPTION'))
  await expect(trouble.complete('all', by, 'result' as never)).rejects.toThrow(refused('HF_INVALID_OPTION'))
  await expect(trouble.cancel('all', by, { compensate: 'yes' } as never)).rejects.toThrow(refused('HF_INVALID_OPTION'))
  await expect(trouble.assign('all', by, {} as never)).rejects.toThrow(refused('HF_INVALID_OPTION'))
  await expect(trouble.assign('all', by, { to: '' })).rejects.toThrow(refused('HF_INVALID_OPTION'))
})
