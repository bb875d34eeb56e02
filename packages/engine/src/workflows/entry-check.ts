import type { Codec } from '../kernel/codec/codec.js'
import type { Notes } from '../kernel/codec/notes.js'
import { HoldfastError } from '../kernel/errors.js'
import { classifyFailure } from '../kernel/failure/classify.js'
import type { Executor } from '../kernel/model/index.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { InstanceEvent } from './decide/instance-event.js'
import type { Definitions } from './definitions.js'
import { type ClaimedStep, ROOT } from './queries/claim-steps.js'

interface Parts {
  readonly db: Executor
  readonly codec: Codec
  readonly definitions: Definitions
}

/**
 * What a queued start begins with. Its input was checked where it was started; one that came through SQL, or from a program
 * without the definition, is parsed here, once, before any step. Its lane is claimed only by programs that have the schema.
 */
export async function startOf({ db, codec, definitions }: Parts, item: ClaimedStep): Promise<InstanceEvent> {
  if (item.type === ROOT) return { type: 'started' }
  const [row] = await db.run<{ input: unknown; notes: Notes | null }>(inputStatement, [item.workflowId])
  if (!row) return { type: 'started' }
  const definition = await definitions.byId(item.definitionId)
  const where = `start ${definition.name}-v${definition.version}: input`
  try {
    // What comes through SQL is plain; with notes it is encoded.
    const given = row.notes === null ? row.input : codec.decode({ json: row.input, notes: row.notes })
    const input = await parseWith(definitions.inputSchema(definition), given, where)
    return { type: 'started', input: codec.encode(input ?? null, { at: 'input' }) }
  } catch (error) {
    return { type: 'started', refused: classifyFailure(misfit(error, where), { unknown: 'permanent' }) }
  }
}

/** Input that cannot be decoded or stored does not fit either: one code for all that another input puts right. */
function misfit(error: unknown, where: string): unknown {
  if (error instanceof HoldfastError && error.code === 'HF_INVALID_DATA') return error
  const problem = `cannot be checked: ${error instanceof Error ? error.message : String(error)}`
  return new HoldfastError('HF_INVALID_DATA', { where, path: '$', problem }, { cause: error })
}

const inputStatement = {
  name: 'workflows.read-input',
  text: 'select input, input_notes as notes from holdfast.workflow where id = $1',
}
