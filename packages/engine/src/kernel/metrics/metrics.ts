/**
 * What the kernel measures. Labels come from a closed set of names whose values are definitions' names, never
 * ids, so the number of series is bounded. The sinks (Prometheus, OpenTelemetry) live in other packages.
 */
export interface MetricLabels {
  readonly model: string
  readonly domain?: string
  readonly type?: string
  readonly outcome?: string
  readonly status?: string
}

type CounterName =
  | 'started'
  | 'completed'
  | 'failed'
  | 'compensated'
  | 'cancelled'
  | 'attempts_failed'
  | 'needs_person'
  | 'claims_tried'
  | 'claims_won'
  | 'leases_lost'
  | 'runs_failed'
  | 'runs_alone'
  | 'notifications_received'
  | 'database_retries'
  | 'messages_not_ours'
  | 'replies_unknown'
  | 'replies_ignored'
  | 'responses_refused'
  | 'steps_released'
  | 'dispatch_claimed'
  | 'dispatch_started'
  | 'dispatch_start_failures'
  | 'dispatch_stale_recovered'
  | 'dispatch_dead_letters'
  | 'dispatch_tripped'

type ObservationName =
  | 'queue_milliseconds'
  | 'run_milliseconds'
  | 'total_milliseconds'
  | 'flush_size'
  | 'flush_milliseconds'
  | 'claim_milliseconds'
  | 'step_milliseconds'
  | 'dispatch_cycle_milliseconds'

type GaugeName =
  | 'in_flight'
  | 'oldest_due_seconds'
  | 'needing_person'
  | 'oldest_needing_person_seconds'
  | 'steps_without_handler'
  | 'dispatch_depth'

export interface Metrics {
  /** Raises a counter. */
  count(name: CounterName, labels: MetricLabels, by?: number): void
  /** Adds one observation to a distribution. */
  observe(name: ObservationName, labels: MetricLabels, value: number): void
  /** Sets a value that goes up and down. */
  gauge(name: GaugeName, labels: MetricLabels, value: number): void
}

export const noMetrics: Metrics = { count() {}, observe() {}, gauge() {} }
