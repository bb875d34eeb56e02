import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, test } from 'vitest'

const root = join(import.meta.dirname, '../../..')
const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => file !== '')

/** A section, from its heading to the next heading of the same or a higher level. */
function section(heading: string): string {
  const [, level = ''] = new RegExp(`^(#+) ${heading}$`, 'm').exec(text) ?? []
  const [, rest = ''] = text.split(`\n${level} ${heading}\n`)
  return rest.split(new RegExp(`^#{2,${level.length}} `, 'm'))[0] ?? ''
}

/** What stands in back quotes outside of blocks of code. */
const quoted = (markdown: string) =>
  [...markdown.replace(/^```[\s\S]*?^```/gm, '').matchAll(/`([^`]+)`/g)].flatMap(([, one]) => one ?? [])

/** The paths of the tree, each put together from its own name and those of the folders around it. */
function treeFolders(): readonly string[] {
  const [, tree = ''] = /```\n([\s\S]*?)```/.exec(section('Folders')) ?? []
  const around: { readonly indent: number; readonly path: string }[] = []
  return [...tree.matchAll(/^( *)([\w./-]+\/)(?: |$)/gm)].map(([, { length: indent } = '', name = '']) => {
    while ((around.at(-1)?.indent ?? -1) >= indent) around.pop()
    const path = `${around.at(-1)?.path ?? ''}${name}`
    around.push({ indent, path })
    return path
  })
}

test('the tree of ARCHITECTURE.md has every folder of code, and no other', () => {
  const listed = treeFolders()
  const folders = files.flatMap((file) => /^packages\/\w+\/(?:src|sql)\/(?:[\w-]+\/)*/.exec(file)?.[0] ?? [])
  expect(listed).toEqual(expect.arrayContaining([...new Set(folders)].filter((folder) => !folder.endsWith('/sql/'))))
  expect(listed.filter((folder) => !files.some((file) => file.startsWith(folder)))).toEqual([])
})

describe('the walks of ARCHITECTURE.md', () => {
  it.each([
    ['A command', 'commands'],
    ['A step of a process', 'processes'],
    ['A step of a workflow', 'workflows'],
  ])('%s: every file that it names is there', (heading, model) => {
    const named = quoted(section(heading)).filter((one) => /^[\w/.-]+\.(ts|sql)$/.test(one))
    const missing = named.filter((one) => {
      const path = one.startsWith('sql/') ? one : one.startsWith('kernel/') ? `src/${one}` : `src/${model}/${one}`
      return !files.includes(`packages/engine/${path}`)
    })
    expect(named.length).toBeGreaterThan(10)
    expect(missing).toEqual([])
  })
})

test('every file that ARCHITECTURE.md names is there', () => {
  const named = quoted(text).filter((one) => /^[\w/.-]+\.(ts|sql|mjs|cjs)$/.test(one))
  expect(named.filter((one) => !files.some((file) => `/${file}`.endsWith(`/${one}`)))).toEqual([])
})

test('every function, column and type that ARCHITECTURE.md names is in the code', () => {
  const code = files
    .filter((file) => /^(packages|test)\/.*\.(ts|sql)$/.test(file) && !file.endsWith('schema.sql'))
    .map((file) => readFileSync(join(root, file), 'utf8'))
    .join('\n')
  const names = new Set(code.match(/[A-Za-z_]\w*/g))
  const named = quoted(text).flatMap((one) => /^(?:\w+\.)?([A-Za-z]\w*)(?:\(.*\))?$/.exec(one)?.[1] ?? [])
  expect(named.length).toBeGreaterThan(100)
  expect(named.filter((one) => !names.has(one))).toEqual([])
})
