import { readFile } from 'node:fs/promises'
import { crashTest, createEffects, expectEveryEffectKeptOrUndone, faultTest } from '@holdfast/testing'
import { expect, test } from 'vitest'
import { refundVia } from './refund.js'

const by = { actor: 'ann', reason: 'a test' }

function shop(seed = 1) {
  const faults = { lostAnswer: 15, unreachable: 10, refused: 5, hangs: 3, late: 2 }
  const bank = createEffects({ seed: `bank ${seed}`, faults })
  const ledger = createEffects({ seed: `ledger ${seed}`, faults })
  return { bank, ledger }
}

test('X-02 K-19 under random faults every refund is kept or undone exactly once', async () => {
  const report = await faultTest({
    seeds: 60,
    world: shop,
    register: (world) => [refundVia(world)],
    start: async (hf, world, seed) =>
      (await hf.start(refundVia(world), { refund: `R-${seed}` }, { immediate: false })).id,
    cancel: (hf, id, world) => hf.process(refundVia(world), id).cancel(by, { compensate: true }),
    attend: async (hf, world, open) => {
      for (const id of open) await hf.process(refundVia(world), id).cancel(by, { compensate: true })
    },
    invariant: async ({ world, sql }) => {
      await expectEveryEffectKeptOrUndone(world.bank, sql)
      await expectEveryEffectKeptOrUndone(world.ledger, sql)
    },
  })
  expect(report).toMatchObject({ executions: 60 })
})

test('X-02 K-19 killed in mid-call and cancelled then, a refund is kept or undone exactly once', async () => {
  const report = await crashTest({
    world: () => ({ bank: createEffects(), ledger: createEffects() }),
    register: (world) => [refundVia(world)],
    start: (hf, world) => hf.start(refundVia(world), { refund: 'R-1' }, { key: 'R-1' }),
    cancel: (hf, { id }, world) => hf.process(refundVia(world), id).cancel(by, { compensate: true }),
    invariant: async ({ world, sql }) => {
      await expectEveryEffectKeptOrUndone(world.bank, sql)
      await expectEveryEffectKeptOrUndone(world.ledger, sql)
    },
  })
  expect(report.killPoints).toEqual(expect.arrayContaining(['after effect pay#1', 'after call debit#1']))
})

test('X-02 the guide to testing shows code of this file', async () => {
  const text = await readFile(new URL('../../../docs/guides/testing-your-processes.md', import.meta.url), 'utf8')
  const files = await Promise.all(
    ['effects-guide.long.test.ts', 'refund.ts'].map((file) => readFile(new URL(`./${file}`, import.meta.url), 'utf8')),
  )
  const [, section = ''] = text.split('## Every effect is kept, or undone exactly once')
  const snippets = [...section.matchAll(/```ts\n([\s\S]*?)\n```/g)].map(([, code = '']) => code)
  expect(snippets.length).toBeGreaterThan(2)
  for (const snippet of snippets)
    expect(
      files.some((file) => file.includes(snippet)),
      snippet,
    ).toBe(true)
})
