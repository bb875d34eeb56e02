import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/database/executor.js'
import { HoldfastError } from '../../kernel/errors.js'
import type { ProcessStatus } from '../states.js'

/** Of a process, what whoever waits for its end wants to know; `EXECUTING` is not told apart. */
export interface Standing {
  readonly id: string
  readonly status: ProcessStatus
  readonly result: unknown
  readonly resultNotes: Notes | null
  readonly code: string
  readonly message: string
}

/** By id or key. A process of another definition is refused, like one that is not there. */
export async function findStanding(executor: Executor, name: string, reference: string): Promise<Standing> {
  const [row] = await executor.run<Standing & { type: string }>(statement, [name, reference])
  if (!row) throw new HoldfastError('HF_UNKNOWN_PROCESS', { id: reference, process: name })
  if (row.type === name) return row
  throw new HoldfastError('HF_PROCESS_OF_OTHER_TYPE', { id: reference, process: name, actual: row.type })
}

const statement = {
  name: 'processes.find-standing',
  text: `
    select
      process.id, process.type, process.status, detail.result, detail.result_notes as "resultNotes",
      coalesce(detail.error_code, '') as code, coalesce(detail.error_message, '') as message
    from holdfast.process
    join holdfast.process_detail as detail on detail.id = process.id
    where process.id = holdfast.process_id_of($1, $2)`,
}
