import { lstatSync, readFileSync, symlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { systemErrorCode } from '../errors.js'

/**
 * Makes the symbolic links that the package's own install script would have made (npm archives hold none, and we install
 * without scripts). False when the folder is not ours to write and links are missing.
 */
export function makeLinks(folder: string): boolean {
  for (const { source, target } of readLinks(folder)) {
    const link = join(folder, target)
    if (lstatSync(link, { throwIfNoEntry: false }) !== undefined) continue
    // Both ends are in the same folder, so the bare name is enough and stays right when the whole is moved.
    if (dirname(source) !== dirname(target)) throw new Error(`unexpected link ${target} in ${folder}`)
    try {
      symlinkSync(basename(source), link)
    } catch (error) {
      const code = systemErrorCode(error)
      if (code === 'EEXIST') continue
      if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return false
      throw error
    }
  }
  return true
}

interface Link {
  readonly source: string
  readonly target: string
}

function readLinks(folder: string): Link[] {
  try {
    const list: unknown = JSON.parse(readFileSync(join(folder, 'native', 'pg-symlinks.json'), 'utf8'))
    return Array.isArray(list) ? list.filter(isLink) : []
  } catch (error) {
    // The Windows package needs no links and has no list.
    if (systemErrorCode(error) === 'ENOENT') return []
    throw error
  }
}

function isLink(value: unknown): value is Link {
  if (typeof value !== 'object' || value === null || !('source' in value) || !('target' in value)) return false
  return typeof value.source === 'string' && typeof value.target === 'string'
}
