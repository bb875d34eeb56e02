import type { Executor } from '../../kernel/model/index.js'
import type { DispatchSettings } from '../settings.js'
import type { Engine } from '../targets.js'

/** Durations of the configuration, in milliseconds. */
interface Durations {
  readonly dispatchInterval: number
  readonly jitterWindow: number
  readonly preStartBuffer: number
  readonly staleClaimThreshold: number
}

/** The settings of an item type as they are now; durations in milliseconds. */
export interface DispatchConfig extends Required<Omit<DispatchSettings, keyof Durations>>, Durations {
  readonly itemType: string
  readonly engine: Engine
  readonly updatedAt: Date
  /** Since when and why the window has stopped by itself; null while it continues. */
  readonly tripped: { readonly at: Date; readonly reason: string; readonly failures: number } | null
}

type Row = Omit<DispatchConfig, 'tripped'> & {
  readonly trippedAt: Date | null
  readonly tripReason: string | null
  readonly failures: number | null
}

function toConfig({ trippedAt, tripReason, failures, ...row }: Row): DispatchConfig {
  const tripped = trippedAt === null ? null : { at: trippedAt, reason: tripReason ?? '', failures: failures ?? 0 }
  return { ...row, tripped }
}

/** Stage 1 of a cycle, and what operators look at. */
export async function readConfig(executor: Executor, itemType: string): Promise<DispatchConfig | undefined> {
  const [row] = await executor.run<Row>(readStatement, [itemType])
  return row && toConfig(row)
}

export async function listConfigs(executor: Executor): Promise<DispatchConfig[]> {
  return (await executor.run<Row>(listStatement)).map(toConfig)
}

const COLUMNS = `
    select item_type as "itemType", engine, enabled, batch_size as "batchSize",
      dispatch_interval_secs * 1000::float8 as "dispatchInterval", jitter_window_ms as "jitterWindow",
      pre_start_buffer_mins * 60000::float8 as "preStartBuffer", max_dispatch_retries as "maxDispatchRetries",
      stale_claim_threshold_mins * 60000::float8 as "staleClaimThreshold",
      max_stale_recovery_per_cycle as "maxStaleRecoveryPerCycle", max_batches_ahead as "maxBatchesAhead",
      trip_after as "tripAfter", tripped_at as "trippedAt", trip_reason as "tripReason", failures_in_row as failures,
      exec_workflow_type as "execWorkflowType", exec_task_queue as "execTaskQueue",
      rate_limit_key as "rateLimitKey", updated_at as "updatedAt"
    from holdfast.dispatch_config
    left join holdfast.dispatch_cycle using (item_type)`

const readStatement = { name: 'dispatch.read-config', text: `${COLUMNS} where item_type = $1` }
const listStatement = { name: 'dispatch.list-configs', text: `${COLUMNS} order by item_type` }
