import type { Executor } from '../../kernel/database/executor.js'
import type { DispatchSettings } from '../settings.js'
import type { Engine } from '../targets.js'

/** The configuration of an item type as it is now. */
export interface DispatchConfig extends Required<DispatchSettings> {
  readonly itemType: string
  readonly engine: Engine
  readonly updatedAt: Date
}

/** Stage 1 of a cycle, and what operators look at. */
export async function readConfig(executor: Executor, itemType: string): Promise<DispatchConfig | undefined> {
  const [config] = await executor.run<DispatchConfig>(readStatement, [itemType])
  return config
}

export async function listConfigs(executor: Executor): Promise<DispatchConfig[]> {
  return executor.run<DispatchConfig>(listStatement)
}

const COLUMNS = `
    select item_type as "itemType", engine, enabled, batch_size as "batchSize",
      dispatch_interval_secs as "dispatchIntervalSecs", jitter_window_ms as "jitterWindowMs",
      pre_start_buffer_mins as "preStartBufferMins", max_dispatch_retries as "maxDispatchRetries",
      stale_claim_threshold_mins as "staleClaimThresholdMins",
      max_stale_recovery_per_cycle as "maxStaleRecoveryPerCycle", max_batches_ahead as "maxBatchesAhead",
      exec_workflow_type as "execWorkflowType", exec_task_queue as "execTaskQueue",
      rate_limit_key as "rateLimitKey", updated_at as "updatedAt"
    from holdfast.dispatch_config`

const readStatement = { name: 'dispatch.read-config', text: `${COLUMNS} where item_type = $1` }
const listStatement = { name: 'dispatch.list-configs', text: `${COLUMNS} order by item_type` }
