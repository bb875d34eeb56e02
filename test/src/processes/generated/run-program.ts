import { stopDeadAt, waitFor } from '@holdfast/testing/internal'
import { assemble, newId, openDatabase } from 'holdfast/internal'
import type pg from 'pg'
import { booksOf, type ProcessBooks } from '../books.js'
import { interpreter, type Witness } from './interpreter.js'
import { type Program, responsesFor } from './program.js'

const ENDS = ['COMPLETED', 'COMPENSATED', 'WAITING_FOR_TSQ', 'FAILED', 'CANCELLED']
// The leases of the dead are ended by hand (`bury`); those of the living are never lost, however busy the machine is.
const WORKER = { concurrency: 4, lease: '30s', poll: '20ms' } as const

export interface Run {
  readonly book: ProcessBooks
  /** What the program had seen whenever it called somebody. */
  readonly seen: readonly (readonly string[])[]
  /** How many of its workers died. */
  readonly deaths: number
}

/**
 * Runs a program to its end. Each number is a worker that stops dead when it has passed so many fault points; the next
 * one takes over, and the last one lives.
 */
export async function runProgram(
  { connectionString, pool }: { connectionString: string; pool: pg.Pool },
  program: Program,
  lives: readonly number[],
): Promise<Run> {
  const domain = `generated-${newId()}`
  const notes = createNotes(pool)
  const client = assemble(await openDatabase({ connectionString, poolSize: 2 }), {})
  const Program = interpreter(
    domain,
    notes.for(() => false),
  )
  const { id } = await client.start(Program, { program }, { immediate: false })
  const ping = async (n: number) => {
    await client.process(Program, id).respond('ping', { n }, { responseId: `ping ${n}` })
    await client.process(Program, id).respond('ping', { n }, { responseId: `ping ${n}` })
  }
  const total = responsesFor(program.body)
  const early = Math.min(program.early, total)
  for (let n = 0; n < early; n++) await ping(n)
  const pinging = Promise.all(Array.from({ length: total - early }, (_, n) => ping(early + n)))

  const ended = async () => {
    const [book] = await booksOf(pool, [id])
    return book && ENDS.includes(book.status) && !book.leased ? book : undefined
  }
  let deaths = 0
  let book: ProcessBooks | undefined
  for (const life of [...lives, Number.POSITIVE_INFINITY]) {
    const mortal = stopDeadAt(life)
    const name = `mortal ${newId()}`
    const stop = await live(
      mortal,
      name,
      connectionString,
      interpreter(
        domain,
        notes.for(() => mortal.dead),
      ),
    )
    const outcome = await waitFor('the program has ended', async () => mortal.dead || (await ended()), {
      timeout: 60_000,
    }).catch(async (error) => {
      throw new Error(JSON.stringify(await booksOf(pool, [id])), { cause: error })
    })
    if (outcome !== true) {
      book = outcome
      // It may have died since, with a statement of a loop that nobody waits for.
      await Promise.race([stop(), mortal.died])
      await bury(pool, name)
      break
    }
    deaths += 1
    await bury(pool, name)
  }
  await pinging
  await client.close()
  if (!book) throw new Error('it has not ended')
  return { book, seen: notes.seen, deaths }
}

/** Starts a worker and answers how to stop it, when it runs or when it has died on the way there. */
async function live(
  { faults, died }: ReturnType<typeof stopDeadAt>,
  name: string,
  connectionString: string,
  Program: ReturnType<typeof interpreter>,
): Promise<() => Promise<void>> {
  let mortal = false
  const db = await openDatabase({
    connectionString,
    poolSize: 4,
    applicationName: name,
    faults: (point) => (mortal ? faults(point) : undefined),
  })
  mortal = true
  const hf = assemble(db, {})
  hf.register(Program)
  await Promise.race([hf.run({ name, ...WORKER }), died])
  return () => {
    mortal = false
    return hf.close()
  }
}

/** What the system does for a process that was killed; and its leases end at once, so that nobody has to wait. */
async function bury(pool: pg.Pool, name: string): Promise<void> {
  await pool.query('select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1', [name])
  await pool.query('update holdfast.process set due_at = holdfast.now() where leased_by = $1', [name])
  await pool.query('update holdfast.process_inbox set due_at = holdfast.now() where leased_by = $1', [name])
}

function createNotes(pool: pg.Pool) {
  const seen: (readonly string[])[] = []
  const calls = new Set<string>()
  return {
    seen,
    for: (dead: () => boolean): Witness => ({
      dead,
      async called(processId, call, log) {
        seen.push(log)
        calls.add(call)
        await pool.query(noteStatement, [processId, call, false])
      },
      saw: (log) => void seen.push(log),
      async undone(processId, call) {
        await pool.query(noteStatement, [processId, call, true])
      },
      wasCalled: (call) => calls.has(call),
    }),
  }
}

const noteStatement = `
  insert into effect (id, process_id, call, recorded, unready)
  select gen_random_uuid(), $1::uuid, case when $3 then 'undo ' else '' end || $2::text, exists (
    select
    from holdfast.process_history
    where process_id = $1 and status = 'COMPLETED' and (kind = 'COMPENSATION') = $3
      and name || case when occurrence > 1 then '#' || occurrence else '' end = $2
  ), 0`
