import type { Workload } from '../harness/workload.js'
import { commandsBacklog } from './commands-backlog/index.js'
import { commandsDrain } from './commands-drain/index.js'
import { commandsLatency } from './commands-latency/index.js'
import { commandsSend } from './commands-send/index.js'
import { dispatchMillion, dispatchRate } from './dispatch/index.js'
import { limiter, limiterRate } from './limiter/index.js'
import { loop } from './loop/index.js'
import { processHistory } from './process-history/index.js'
import { processLatency } from './process-latency/index.js'
import { processParked } from './process-parked/index.js'
import { processSteps } from './process-steps/index.js'
import { processWaits } from './process-waits/index.js'
import { workflowBacklog } from './workflow-backlog/index.js'
import { workflowChain } from './workflow-chain/index.js'
import { workflowFork } from './workflow-fork/index.js'

export const workloads: readonly Workload[] = [
  loop,
  commandsDrain,
  commandsSend,
  commandsLatency,
  commandsBacklog,
  limiter,
  limiterRate,
  processSteps,
  processLatency,
  processWaits,
  processParked,
  processHistory,
  dispatchMillion,
  dispatchRate,
  workflowChain,
  workflowFork,
  workflowBacklog,
]

export function findWorkload(name: string): Workload | undefined {
  return workloads.find((workload) => workload.name === name)
}
