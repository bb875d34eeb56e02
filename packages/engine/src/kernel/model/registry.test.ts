import { expect, test } from 'vitest'
import { createRegistry, type Registry } from './registry.js'

interface Item {
  readonly domain?: string
  readonly type: string
  readonly code?: number
}
const registryOf = (same?: (known: Item, added: Item) => boolean): Registry<Item> =>
  createRegistry<Item>('commands', { named: (item) => item, ...(same ? { same } : {}) })

test('U-11 a second item of the same name is refused with one code and the same details in all models', () => {
  const registry = registryOf()
  registry.add({ domain: 'risk', type: 'Book' })
  registry.add({ domain: 'cards', type: 'Book' })
  expect(() => registry.add({ domain: 'risk', type: 'Book' })).toThrow(
    expect.objectContaining({
      code: 'HF_DUPLICATE_DEFINITION',
      details: { model: 'commands', domain: 'risk', type: 'Book' },
      message: expect.stringContaining('risk/Book'),
    }),
  )
})

test('U-11 a duplicate without a domain is refused without one in its details', () => {
  const registry = registryOf()
  registry.add({ type: 'charge' })
  expect(() => registry.add({ type: 'charge' })).toThrow(
    expect.objectContaining({ code: 'HF_DUPLICATE_DEFINITION', details: { model: 'commands', type: 'charge' } }),
  )
})

test('U-01 the same definition may be registered twice, where the model compares definitions', () => {
  const registry = registryOf(Object.is)
  const item = { domain: 'risk', type: 'Book' }
  registry.add(item)
  registry.add(item)
  expect(registry.all()).toEqual([item])
  expect(() => registry.add({ ...item })).toThrow(expect.objectContaining({ code: 'HF_DUPLICATE_DEFINITION' }))
})

test('U-01 items are found by name, by domain and by type, until they are removed', () => {
  const registry = registryOf()
  const book = { domain: 'risk', type: 'Book' }
  const assess = { domain: 'risk', type: 'Assess' }
  const charge = { type: 'charge' }
  for (const item of [book, assess, charge]) registry.add(item)
  expect(registry.find('risk/Book')).toBe(book)
  expect(registry.names()).toEqual(['charge', 'risk/Assess', 'risk/Book'])
  expect(registry.domains()).toEqual(['risk'])
  expect(registry.inDomain('risk')).toEqual([book, assess])
  expect(registry.types('risk')).toEqual(['Book', 'Assess'])
  expect(registry.types('cards')).toEqual([])
  expect([registry.remove('risk/Book'), registry.remove('risk/Book')]).toEqual([true, false])
  expect(registry.find('risk/Book')).toBeUndefined()
  expect(registry.types('risk')).toEqual(['Assess'])
})

test('U-01 a listener is called for items that are added from then on', () => {
  const registry = registryOf(Object.is)
  const heard: string[] = []
  registry.add({ type: 'before' })
  const end = registry.onAdded(({ type }) => heard.push(type))
  const item = { type: 'after' }
  registry.add(item)
  registry.add(item)
  end()
  registry.add({ type: 'later' })
  expect(heard).toEqual(['after'])
})
