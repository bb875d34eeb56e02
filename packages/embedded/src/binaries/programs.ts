import { join } from 'node:path'
import type { Account } from '../account.js'
import { systemErrorCode } from '../errors.js'
import { runProgram } from '../program.js'

/** The programs of one PostgreSQL installation that were seen to run here. */
export interface Binaries {
  readonly binDir: string
  readonly postgres: string
  readonly initdb: string
  readonly version: string
  readonly major: number
}

export type Trial = { readonly binaries: Binaries } | { readonly problem: string; readonly denied: boolean }

/** Runs both programs under the server's account: the one test that also sees a wrong libc or a missing library. */
export async function tryPrograms(binDir: string, account: Account | undefined): Promise<Trial> {
  const suffix = process.platform === 'win32' ? '.exe' : ''
  const postgres = join(binDir, `postgres${suffix}`)
  const initdb = join(binDir, `initdb${suffix}`)
  try {
    const [first, second] = await Promise.all([
      runProgram(postgres, ['--version'], { account }),
      runProgram(initdb, ['--version'], { account }),
    ])
    const version = /\(PostgreSQL\) ((\d+)\S*)/.exec(first.output)
    if (first.code !== 0 || version === null) return { problem: `${postgres}: ${first.output}`, denied: false }
    if (second.code !== 0) return { problem: `${initdb}: ${second.output}`, denied: false }
    return { binaries: { binDir, postgres, initdb, version: version[1] ?? '', major: Number(version[2]) } }
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    return { problem: `${postgres}: ${problem}`, denied: systemErrorCode(error) === 'EACCES' }
  }
}
