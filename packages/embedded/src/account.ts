import { existsSync, readFileSync, realpathSync, type Stats, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { EmbeddedPostgresError } from './errors.js'

/** The account the server runs under when that is not our own. */
export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/**
 * PostgreSQL refuses to run as root, so for root it runs under an account without rights; other users run it as themselves. Data
 * that exists is served by its owner, so that root can continue what another user has created.
 */
export function serverAccount(dataDir?: string, uid = process.getuid?.(), passwd = readPasswd): Account | undefined {
  if (uid !== 0) return undefined
  const owner = dataDir === undefined ? undefined : statSync(dataDir, { throwIfNoEntry: false })
  if (owner !== undefined && owner.uid !== 0) return { name: `with id ${owner.uid}`, uid: owner.uid, gid: owner.gid }
  const accounts = parsePasswd(passwd())
  const found = ['postgres', 'nobody'].map((name) => accounts.get(name)).find((account) => account !== undefined)
  if (found !== undefined) return found
  throw new EmbeddedPostgresError(
    'HF_EMBEDDED_NO_ACCOUNT',
    "PostgreSQL does not run as root, and /etc/passwd has neither a user 'postgres' nor 'nobody' to run it as.",
    'Create one of them (useradd --system postgres), run as an ordinary user, or set DATABASE_URL.',
  )
}

/** Whether the account can pass through every folder down to this one (the missing ones are ours to make). */
export function canEnter(folder: string, account: Account | undefined): boolean {
  if (account === undefined) return true
  let path = resolve(folder)
  while (!existsSync(path)) path = dirname(path)
  // The real path: behind a link lie other folders than its name says.
  for (path = realpathSync(path); ; path = dirname(path)) {
    if (!mayPass(statSync(path), account)) return false
    if (path === dirname(path)) return true
  }
}

function mayPass(stats: Stats, account: Account): boolean {
  const shift = stats.uid === account.uid ? 6 : stats.gid === account.gid ? 3 : 0
  return ((stats.mode >> shift) & 1) === 1
}

function parsePasswd(text: string): Map<string, Account> {
  const accounts = new Map<string, Account>()
  for (const line of text.split('\n')) {
    const [name, , uid, gid] = line.split(':')
    if (name !== undefined && Number(uid) > 0) accounts.set(name, { name, uid: Number(uid), gid: Number(gid) })
  }
  return accounts
}

function readPasswd(): string {
  return readFileSync('/etc/passwd', 'utf8')
}
