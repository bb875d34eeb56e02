import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { newId } from '../../kernel/ids/id.js'
import { definitionOf, isTransient } from '../../kernel/model/index.js'
import { findNewestVersion } from '../queries/find-newest-version.js'
import type { DispatchConfig } from '../queries/read-config.js'
import { failFirstDue, type Mark, type ReleaseRequest, releaseItems } from '../queries/release-items.js'
import type { OwnTarget } from '../targets.js'
import type { Grant } from './grant.js'
import type { BatchOutcome, Cycle, CycleParts } from './parts.js'

/** Releases a batch to our own engine: claim, start and record in one transaction. */
export async function releaseBatch(
  parts: CycleParts,
  cycle: Cycle,
  target: OwnTarget,
  config: DispatchConfig,
  grant: Grant,
): Promise<BatchOutcome> {
  const { definition, marks } = parts
  const request = {
    type: cycle.type,
    epoch: cycle.epoch,
    batch: newId(),
    most: grant.most,
    contextVersion: definition.version,
    ...(await executionOf(parts, target, config)),
  }
  const began = performance.now()
  const from = marks.from(began)
  const released = await releaseOrSplit(parts, request, from, grant.slots).catch((error: unknown) => {
    // Stored again by the next cycle.
    if ('workflow' in target) parts.workflows.definitions.forget(target.workflow)
    throw error
  })
  marks.learned(released.mark, { full: from === undefined, began, ended: performance.now() })
  return released
}

/** What is started: the definition's own, or what an operator has configured instead. */
async function executionOf(
  { db, workflows }: CycleParts,
  target: OwnTarget,
  { execWorkflowType: configured }: DispatchConfig,
): Promise<Pick<ReleaseRequest, 'execType' | 'version' | 'redirected' | 'definitionId'>> {
  if ('workflow' in target) {
    const { definitions } = workflows
    const { id, definition } = await (configured === null
      ? definitions.store(target.workflow)
      : definitions.find(configured))
    const { name: execType, version } = definition
    const redirected = execType !== target.workflow.name || version !== target.workflow.version
    return { execType, version, redirected, definitionId: id }
  }
  const { name, version } = target.process
  if (configured === null || configured === name) return { execType: name, version, redirected: false }
  return { execType: configured, version: await findNewestVersion(db, configured), redirected: true }
}

/**
 * An item that makes the statement fail is found by halving the batch, and fails alone. An error of the database itself
 * is thrown: nothing was released, and the next cycle tries again.
 */
async function releaseOrSplit(
  parts: CycleParts,
  request: ReleaseRequest,
  from: Mark | undefined,
  slots: readonly number[] | undefined,
): Promise<BatchOutcome & { readonly mark: Mark | undefined }> {
  const { db, logger } = parts
  try {
    const released = await releaseItems(db, request, from, slots)
    if (released.outcome !== 'unknown definition') return { ...released, outcome: released.outcome }
    const { execType, version } = request
    throw new HoldfastError('HF_UNKNOWN_DEFINITION', { ...definitionOf('workflows', execType), version })
  } catch (error) {
    if (isTransient(error) || (error instanceof HoldfastError && error.code === 'HF_UNKNOWN_DEFINITION')) throw error
    const { type, most } = request
    logger.warn({ err: error, type, most }, 'a batch could not be released; searching for the item that makes it fail')
    if (most > 1) {
      return releaseOrSplit(parts, { ...request, batch: newId(), most: Math.floor(most / 2) }, from, slots)
    }
    const item = await failFirstDue(db, request, from, classifyFailure(error, { unknown: 'permanent' }))
    const failed = item === null ? 0 : 1
    return { outcome: 'released', claimed: failed, started: 0, failed, full: true, mark: undefined }
  }
}
