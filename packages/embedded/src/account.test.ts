import { statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { scratchFolder } from '../test/scratch.js'
import { canEnter, serverAccount } from './account.js'

describe('the account that the server runs under', () => {
  const passwd =
    (...lines: string[]) =>
    () =>
      ['root:x:0:0::/root:/bin/sh', ...lines].join('\n')
  const postgres = 'postgres:x:101:104::/var/lib/postgresql:/bin/bash'
  const nobody = 'nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin'

  it("is the user's own, and for root `postgres`, or else `nobody`", () => {
    expect(serverAccount(undefined, 1000, passwd(postgres))).toBeUndefined()
    expect(serverAccount(undefined, 0, passwd(nobody, postgres))).toEqual({ name: 'postgres', uid: 101, gid: 104 })
    expect(serverAccount(undefined, 0, passwd(nobody))).toMatchObject({ name: 'nobody', uid: 65_534 })
    expect(() => serverAccount(undefined, 0, passwd())).toThrow(/HF_EMBEDDED_NO_ACCOUNT/)
  })

  it('passes through a folder by the bits for owner, group and others', () => {
    const open = scratchFolder(0o755)
    const closed = scratchFolder(0o700)
    const stranger = { name: 'stranger', uid: 54_321, gid: 54_321 }
    const owner = { name: 'owner', uid: statSync(closed).uid, gid: statSync(closed).gid }
    expect(canEnter(join(open, 'not', 'there', 'yet'), stranger)).toBe(true)
    expect(canEnter(join(closed, 'inside'), stranger)).toBe(false)
    expect(canEnter(join(closed, 'inside'), owner)).toBe(true)
  })
})
